package kubelet

import (
	"reflect"
	"strings"
	"testing"
)

// TestParseFields: values follow behind = or as the next argument, with - or _ in names. A flag
// without a value replaces the field, too.
func TestParseFields(t *testing.T) {
	t.Parallel()
	type values = map[string]string
	type fields = map[string]any
	for args, want := range map[string]fields{
		"--v=2":                            {},
		"--kube-reserved=cpu=1,memory=1Gi": {"kubeReserved": values{"cpu": "1", "memory": "1Gi"}},
		"--system_reserved cpu=500m,ephemeral-storage=1Gi":    {"systemReserved": values{"cpu": "500m", "ephemeral-storage": "1Gi"}},
		"--kube-reserved=cpu=1 --kube-reserved cpu=2,pid=5":   {"kubeReserved": values{"cpu": "2", "pid": "5"}},
		"--eviction-hard=memory.available<5Mi,pid.available<": {"evictionHard": values{"memory.available": "5Mi", "pid.available": ""}},
		"--eviction-hard=":    {"evictionHard": values{}},
		"--kube-reserved=cpu": {"kubeReserved": values{}},
		"--enforce-node-allocatable=pods,kube-reserved --enforce_node_allocatable system-reserved": {
			"enforceNodeAllocatable": []string{"pods", "kube-reserved", "system-reserved"},
		},
		"--enforce-node-allocatable=": {"enforceNodeAllocatable": []string{}},
		"--kube-reserved-cgroup=/runtime --cpu-manager-policy=static --reserved-cpus=": {
			"kubeReservedCgroup": "/runtime", "cpuManagerPolicy": "static", "reservedSystemCPUs": "",
		},
		"--local-storage-capacity-isolation --memory-manager-policy Static": {"localStorageCapacityIsolation": true, "memoryManagerPolicy": "Static"},
		"--local-storage-capacity-isolation=false":                          {"localStorageCapacityIsolation": false},
		"--local-storage-capacity-isolation=perhaps":                        {},
	} {
		if got := parse(strings.Fields(args)).Fields; !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v; want %v", args, got, want)
		}
	}
}

func TestParseIgnoreEviction(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]bool{
		"--experimental-allocatable-ignore-eviction --root-dir /data":       true,
		"--experimental-allocatable-ignore-eviction=false --root-dir=/data": false,
	} {
		if f := parse(strings.Fields(args)); f.IgnoreEviction != want || f.RootDir != "/data" {
			t.Errorf("%q: %+v", args, f)
		}
	}
}

// TestOtherTree: the root itself, in each spelling, and flags that are not given are no other tree.
func TestOtherTree(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                                   "",
		"--cgroup-root=":                     "",
		"--cgroup-root=/":                    "",
		"--cgroups-per-qos":                  "",
		"--cgroups-per-qos=true":             "",
		"--cgroup-root=/k8s":                 "--cgroup-root=/k8s",
		"--cgroup_root k8s":                  "--cgroup-root=k8s",
		"--cgroup-root=/k8s --cgroup-root=/": "",
		"--cgroups-per-qos=false":            "--cgroups-per-qos=false",
	} {
		if flags := parse(strings.Fields(line)); flags.OtherTree() != want {
			t.Errorf("%q: %q; want %q", line, flags.OtherTree(), want)
		}
	}
}
