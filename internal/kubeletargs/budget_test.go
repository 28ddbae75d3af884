package kubeletargs

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestParseBudget: values follow behind = or as the next argument, with - or _ in names.
func TestParseBudget(t *testing.T) {
	t.Parallel()
	type values = map[string]string
	for _, test := range []struct {
		args  string
		want  Budget
		given string
	}{
		{"--v=2", Budget{}, ""},
		{"--kube-reserved=cpu=1,memory=1Gi", Budget{KubeReserved: values{"cpu": "1", "memory": "1Gi"}}, "kube-reserved"},
		{"--system_reserved cpu=500m,ephemeral-storage=1Gi", Budget{SystemReserved: values{"cpu": "500m", "ephemeral-storage": "1Gi"}}, "system-reserved"},
		{"--kube-reserved=cpu=1 --kube-reserved cpu=2,pid=5", Budget{KubeReserved: values{"cpu": "2", "pid": "5"}}, "kube-reserved"},
		{"--eviction-hard=memory.available<500Mi,nodefs.available<10%", Budget{EvictionHard: values{"memory.available": "500Mi", "nodefs.available": "10%"}}, "eviction-hard"},
		{"--eviction-hard=", Budget{EvictionHard: values{}}, "eviction-hard"},
		{"--kube-reserved=cpu", Budget{KubeReserved: values{}}, "kube-reserved"},
		{"--enforce-node-allocatable=pods,kube-reserved --enforce_node_allocatable system-reserved", Budget{EnforceNodeAllocatable: []string{"pods", "kube-reserved", "system-reserved"}}, "enforce-node-allocatable"},
		{"--enforce-node-allocatable=", Budget{EnforceNodeAllocatable: []string{}}, "enforce-node-allocatable"},
		{
			"--kube-reserved-cgroup=/runtime --system-reserved-cgroup /system --cpu-manager-policy=static --max-pods 250",
			Budget{KubeReservedCgroup: "/runtime", SystemReservedCgroup: "/system", CPUManagerPolicy: "static", MaxPods: 250},
			"cpu-manager-policy kube-reserved-cgroup max-pods system-reserved-cgroup",
		},
		{"--memory-manager-policy Static", Budget{MemoryManagerPolicy: "Static"}, "memory-manager-policy"},
		{"--max-pods=many", Budget{}, "max-pods"},
		{"--local-storage-capacity-isolation --max-pods=5", Budget{StorageIsolation: true, MaxPods: 5}, "local-storage-capacity-isolation max-pods"},
		{"--local-storage-capacity-isolation=false", Budget{}, "local-storage-capacity-isolation"},
		{"--local-storage-capacity-isolation=perhaps", Budget{}, ""},
	} {
		got := parse(strings.Fields(test.args)).Budget
		given := strings.Join(slices.Sorted(maps.Keys(got.given)), " ")
		if got.given = nil; !reflect.DeepEqual(got, test.want) || given != test.given {
			t.Errorf("%q: %+v, given %s; want %+v, given %s", test.args, got, given, test.want, test.given)
		}
	}
}

func TestParseSwitches(t *testing.T) {
	t.Parallel()
	f := parse(strings.Fields("--experimental-allocatable-ignore-eviction --root-dir /data --reserved-cpus="))
	if !f.IgnoreEviction || f.RootDir != "/data" || f.ReservedCPUs != "" || !f.Given("reserved-cpus") || f.Given("config") {
		t.Errorf("%+v", f)
	}
	if f := parse([]string{"--experimental-allocatable-ignore-eviction=false"}); f.IgnoreEviction {
		t.Errorf("%+v", f)
	}
}
