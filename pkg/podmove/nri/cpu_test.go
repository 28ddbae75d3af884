package nri

import (
	"testing"

	"github.com/containerd/nri/pkg/api"
	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/cri"
	"nodepartition/internal/membership"
	"nodepartition/internal/workload"
	"nodepartition/pkg/podmove"
)

// TestAskedCPU: the container of a member by annotation gets the shares and the quota of its
// type's resource, unless something has set them. A member by its namespace gets none.
func TestAskedCPU(t *testing.T) {
	t.Parallel()
	const defaultSlice = "kubepods-burstable-pod11111111_2222_3333_4444_555555555555.slice"
	policy := podmove.Policy{
		Partitions: []podmove.PartitionPolicy{{Name: "telemetry", Namespaces: []string{"monitoring"}}},
		Workloads:  []membership.Workload{{Type: "telemetry", Partition: "telemetry", Allowed: []string{"operators", "monitoring"}, Advertise: true}},
	}
	asked := map[string]workload.CPU{"main": {Cores: 400, Limit: 500}, "small": {Cores: 1, Limit: 1}, "none": {}}
	p := &Plugin{
		Wake: func() {}, Connection: func(bool) {}, Announce: func(cri.Sandbox, v1.PodQOSClass) {},
		Asked: func(uid, container string) workload.CPU {
			if uid != uidA {
				t.Errorf("asked for the pod %q", uid)
			}
			return asked[container]
		},
	}
	p.SetRules(policy.Rules())
	if _, err := p.Synchronize(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	asks := map[string]string{"target.workload.openshift.io/telemetry": "{}"}
	for name, test := range map[string]struct {
		namespace, container  string
		annotations           map[string]string
		shares, period, quota int64 // before the answer
		want                  [3]int64
	}{
		"as the kubelet makes it":      {"operators", "main", asks, 2, 100_000, 0, [3]int64{409, 0, 50_000}},
		"another period":               {"operators", "main", asks, 2, 20_000, -1, [3]int64{409, 0, 10_000}},
		"nothing set":                  {"operators", "main", asks, 0, 0, 0, [3]int64{409, 100_000, 50_000}},
		"little":                       {"operators", "small", asks, 2, 100_000, 0, [3]int64{2, 0, 1000}},
		"no resource":                  {"operators", "none", asks, 2, 100_000, 0, [3]int64{}},
		"a container that has none":    {"operators", "other", asks, 2, 100_000, 0, [3]int64{}},
		"a CPU request beside it":      {"operators", "main", asks, 512, 100_000, 25_000, [3]int64{}},
		"by its namespace":             {"monitoring", "main", nil, 2, 100_000, 0, [3]int64{}},
		"by its namespace, and asking": {"monitoring", "main", asks, 2, 100_000, 0, [3]int64{409, 0, 50_000}},
		"not a member":                 {"shop", "main", asks, 2, 100_000, 0, [3]int64{}},
	} {
		cpu := &api.LinuxCPU{Shares: api.UInt64(uint64(test.shares)), Period: api.UInt64(uint64(test.period)), Quota: api.Int64(test.quota)}
		if test.shares+test.period == 0 {
			cpu = nil
		}
		pod := &api.PodSandbox{
			Id: "s", Uid: uidA, Namespace: test.namespace, Annotations: test.annotations, Linux: &api.LinuxPodSandbox{CgroupParent: defaultSlice},
		}
		c := &api.Container{Id: "c", Name: test.container, Linux: &api.LinuxContainer{
			CgroupsPath: defaultSlice + ":cri-containerd:one", Resources: &api.LinuxResources{Cpu: cpu},
		}}
		adjust, _, err := p.CreateContainer(t.Context(), pod, c)
		if err != nil {
			t.Error(err)
		}
		got := adjust.GetLinux().GetResources().GetCpu()
		if have := [3]int64{int64(got.GetShares().GetValue()), int64(got.GetPeriod().GetValue()), got.GetQuota().GetValue()}; have != test.want {
			t.Errorf("%s: shares, period and quota %d; want %d", name, have, test.want)
		}
	}
}
