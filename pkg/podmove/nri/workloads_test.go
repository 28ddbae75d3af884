package nri

import (
	"testing"

	"github.com/containerd/nri/pkg/api"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// TestRequested: a pod is placed by its annotation if it has a right to the type.
func TestRequested(t *testing.T) {
	t.Parallel()
	const uid = "11111111_2222_3333_4444_555555555555"
	asks := map[string]string{"target.workload.openshift.io/telemetry": `{"effect":"PreferredDuringScheduling"}`}
	static := map[string]string{"target.workload.openshift.io/telemetry": "{}", "kubernetes.io/config.source": "file"}
	policy := podmove.Policy{
		Partitions: []decision.Partition{{Name: "telemetry"}},
		Workloads:  []partition.Workload{{Type: "telemetry", Partition: "telemetry", Allowed: []string{"operators"}}},
	}
	var announced []string
	p := &Plugin{
		Wake: func() {}, Connection: func(bool) {},
		Announce: func(s podmove.Announcement) { announced = append(announced, s.Namespace) },
	}
	p.SetRules(policy.Rules())
	if _, err := p.Synchronize(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		namespace, class string
		annotations      map[string]string
		member           bool
	}{
		"allowed":           {"operators", "-burstable", asks, true},
		"asks for nothing":  {"operators", "-burstable", nil, false},
		"besteffort":        {"operators", "-besteffort", asks, true},
		"not allowed":       {"shop", "-burstable", asks, false},
		"static":            {"shop", "-burstable", static, true},
		"guaranteed":        {"operators", "", asks, false},
		"guaranteed static": {"shop", "", static, false},
	} {
		announced = nil
		slice := "kubepods" + test.class + "-pod" + uid + ".slice"
		pod := &api.PodSandbox{
			Id: "s", Uid: uidA, Namespace: test.namespace, Annotations: test.annotations, Linux: &api.LinuxPodSandbox{CgroupParent: slice},
		}
		if err := p.RunPodSandbox(t.Context(), pod); err != nil {
			t.Error(err)
		}
		c := &api.Container{Id: "c", Linux: &api.LinuxContainer{CgroupsPath: slice + ":cri-containerd:one"}}
		adjust, _, err := p.CreateContainer(t.Context(), pod, c)
		want := ""
		if test.member {
			want = "kubepods-telemetry" + test.class + "-pod" + uid + ".slice:cri-containerd:one"
		}
		if got := adjust.GetLinux().GetCgroupsPath(); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
		if (len(announced) > 0) != test.member {
			t.Errorf("%s: announced %q", name, announced)
		}
	}
	// The configuration has changed since the sandbox.
	early := &api.PodSandbox{Id: "early", Uid: uidA, Namespace: "shop", Annotations: asks, Linux: &api.LinuxPodSandbox{CgroupParent: "kubepods-burstable-pod" + uid + ".slice"}}
	if err := p.RunPodSandbox(t.Context(), early); err != nil {
		t.Error(err)
	}
	announced = nil
	policy.Workloads[0].ByNamespace = true
	p.SetRules(policy.Rules())
	for range 2 {
		if adjust, _, err := p.CreateContainer(t.Context(), early, &api.Container{Id: "c"}); adjust == nil || err != nil {
			t.Errorf("a pod that got its right after its sandbox: %v, %v", adjust, err)
		}
	}
	if len(announced) != 1 {
		t.Errorf("announced %q; want the sandbox once, for the limits of its slice", announced)
	}
	off := policy
	off.Partitions = []decision.Partition{{Name: "telemetry", Off: true}}
	if got := off.Rules().Partition(partition.Pod{Namespace: "operators", Origin: partition.OriginOf(asks)}); got != partition.Default {
		t.Errorf("a type of a partition that is off has members in %s", got)
	}
}
