package kubeletconfig

import (
	"strings"
	"testing"
)

func TestNear(t *testing.T) {
	known := []string{"memoryLimit", "memoryHigh", "cpuset", "namespaces", "evictionHard", "evictionSoft", SectionField}
	for name, want := range map[string]string{
		"systempartition": SectionField, "systemPartitions": SectionField, "SystemPartition": SectionField,
		"system-partition": SectionField, "system_partition": SectionField, "sytemPartion": SectionField,
		"cpuSet": "cpuset", "cpusets": "cpuset", "memorylimit": "memoryLimit", "memory_limit": "memoryLimit", "memoryLimits": "memoryLimit",
		"namespace": "namespaces", "evictionhard": "evictionHard",
		// Fields of the kubelet, and names that are too far from every known one.
		"systemReserved": "", "systemCgroups": "", "evictionHard2ndThreshold": "", "cpus": "", "x": "", "": "", "ns": "",
		strings.Repeat("systemPartition", 5000): "",
		// A known field is no misspelling of itself.
		"cpuset": "", SectionField: "",
	} {
		if got := Near(name, known...); got != want {
			t.Errorf("%.40q: %q, want %q", name, got, want)
		}
	}
}
