package nri

import (
	"context"
	"os"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// TestRequested: a pod is placed by its annotation if it has a right to the type. It waits for what
// its namespace allows if nothing else decides, and only then.
func TestRequested(t *testing.T) {
	t.Parallel()
	const uid = "11111111_2222_3333_4444_555555555555"
	asks := map[string]string{"target.workload.openshift.io/telemetry": `{"effect":"PreferredDuringScheduling"}`}
	static := map[string]string{"target.workload.openshift.io/telemetry": "{}", "kubernetes.io/config.source": "file"}
	known := map[string]bool{}
	policy := podmove.Policy{
		Partitions: []decision.Partition{{Name: "telemetry"}},
		Workloads:  []partition.Workload{{Type: "telemetry", Partition: "telemetry", Allowed: []string{"operators"}, ByNamespace: true}},
		Allows: func(namespace, _ string) partition.Refusal {
			switch {
			case known[namespace]:
				return ""
			case namespace == "shop":
				return partition.NotAllowed
			}
			return partition.NamespaceUnknown
		},
	}
	var awaited, announced []string
	p := &Plugin{
		Wake: func() {}, Connection: func(bool) {},
		Announce: func(s podmove.Announcement) { announced = append(announced, s.Namespace) },
		Await: func(_ context.Context, namespace string) {
			awaited = append(awaited, namespace)
			if namespace == "allows" {
				known[namespace] = true
			}
		},
	}
	p.SetRules(policy.Rules())
	if _, err := p.Synchronize(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		namespace, class string
		annotations      map[string]string
		member, waits    bool
	}{
		"allowed":           {"operators", "-burstable", asks, true, false},
		"asks for nothing":  {"operators", "-burstable", nil, false, false},
		"allows":            {"allows", "-besteffort", asks, true, true},
		"never answered":    {"unknown", "-burstable", asks, false, true},
		"not allowed":       {"shop", "-burstable", asks, false, false},
		"static":            {"shop", "-burstable", static, true, false},
		"guaranteed":        {"operators", "", asks, false, false},
		"guaranteed static": {"shop", "", static, false, false},
	} {
		awaited, announced = nil, nil
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
		if (len(awaited) > 0) != test.waits || (len(announced) > 0) != test.member {
			t.Errorf("%s: waited for %q, announced %q", name, awaited, announced)
		}
	}
	off := policy
	off.Partitions = []decision.Partition{{Name: "telemetry", Off: true}}
	if got := off.Rules().Partition(partition.Pod{Namespace: "operators", Origin: partition.OriginOf(asks)}); got != partition.Default {
		t.Errorf("a type of a partition that is off has members in %s", got)
	}
}

// TestInDoubt: while it is not known whether a namespace allows a type, a pod that has a slice in
// the partition gets its next container there, by either plugin, and another pod does not.
func TestInDoubt(t *testing.T) {
	t.Parallel()
	const uid = "11111111_2222_3333_4444_555555555555"
	asks := map[string]string{"target.workload.openshift.io/telemetry": "{}"}
	answer := partition.Forbidden
	policy := podmove.Policy{
		Partitions: []decision.Partition{{Name: "telemetry"}},
		Workloads:  []partition.Workload{{Type: "telemetry", Partition: "telemetry", ByNamespace: true}},
		Allows:     func(string, string) partition.Refusal { return answer },
	}
	cgroups := cgroups.FS(t.TempDir())
	var announced []string
	p := &Plugin{
		Wake: func() {}, Connection: func(bool) {}, Cgroups: cgroups,
		Announce: func(s podmove.Announcement) { announced = append(announced, s.ID) },
	}
	p.SetRules(policy.Rules())
	first := &Prelaunched{
		Config: func() (podmove.Policy, error) { return policy, nil }, Cgroups: cgroups, Placed: func() {},
		NotPlaced: func(err error) { t.Error(err) },
	}
	if _, err := p.Synchronize(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	slice := "kubepods-burstable-pod" + uid + ".slice"
	pod := &api.PodSandbox{Id: "s", Uid: uidA, Namespace: "a", Annotations: asks, Linux: &api.LinuxPodSandbox{CgroupParent: slice}}
	if err := p.RunPodSandbox(t.Context(), pod); err != nil || len(announced) > 0 {
		t.Errorf("a pod that is not known to be a member is announced: %q, %v", announced, err)
	}
	placed := func(when string, want bool) {
		t.Helper()
		c := &api.Container{Id: "c", Linux: &api.LinuxContainer{CgroupsPath: slice + ":cri-containerd:one"}}
		byPlugin, _, err := p.CreateContainer(t.Context(), pod, c)
		byFirst, _, firstErr := first.CreateContainer(t.Context(), pod, c)
		if (byPlugin != nil) != want || (byFirst != nil) != want || err != nil || firstErr != nil {
			t.Errorf("%s: %v, %v, %v, %v; want it placed: %t", when, byPlugin, byFirst, err, firstErr, want)
		}
	}
	placed("without a slice", false)
	answer = ""
	placed("the answer came after the sandbox", true)
	placed("again", true)
	if len(announced) != 1 {
		t.Errorf("announced %q; want the sandbox once, for the limits of its slice", announced)
	}
	if err := os.MkdirAll(cgroups.Path(partition.CgroupPath("kubepods-telemetry-burstable-pod"+uid+".slice")), 0o755); err != nil {
		t.Fatal(err)
	}
	answer = partition.NamespaceUnknown
	placed("with a slice", true)
	answer = partition.NotAllowed
	placed("the namespace says no", false)
	answer, slice = "", "kubepods-pod"+uid+".slice"
	pod.Linux.CgroupParent = slice
	placed("guaranteed", false)
}
