package nearest

import (
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	t.Parallel()
	const section = "systemPartition"
	known := []string{
		"memoryLimit", "memoryHigh", "cpuset", "namespaces", "evictionHard", "evictionSoft", section, "run", "status", "check", "kube-system", "monitoring",
	}
	for name, want := range map[string]string{
		"systempartition": section, "systemPartitions": section, "SystemPartition": section,
		"system-partition": section, "system_partition": section, "sytemPartion": section,
		"cpuSet": "cpuset", "cpusets": "cpuset", "memorylimit": "memoryLimit", "memory_limit": "memoryLimit", "memoryLimits": "memoryLimit",
		"namespace": "namespaces", "evictionhard": "evictionHard", "kube-systm": "kube-system", "monitorings": "monitoring",
		// Letters in another order.
		"statsu": "status", "chekc": "check", "sattus": "status", "cupset": "cpuset",
		// Fields of the kubelet, and names that are too far from every known one.
		"systemReserved": "", "systemCgroups": "", "evictionHard2ndThreshold": "", "cpus": "", "x": "", "": "", "ns": "", "start": "", "rum": "", "default": "",
		strings.Repeat(section, 5000): "",
		// A known name does not mean itself.
		"cpuset": "", section: "",
	} {
		if got := Name(name, known...); got != want {
			t.Errorf("%.40q: %q, want %q", name, got, want)
		}
	}
}

func TestMeant(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"statsu": "; is status meant?", "other": ""} {
		if got := Meant(name, "check", "status"); got != want {
			t.Errorf("%s: %q; want %q", name, got, want)
		}
	}
}
