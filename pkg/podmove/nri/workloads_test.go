package nri

import (
	"context"
	"testing"

	"github.com/containerd/nri/pkg/api"
	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/cri"
	"nodepartition/internal/membership"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/podmove"
)

// TestAsked: a pod is placed by its annotation if it has a right to the type. It waits for what its
// namespace allows if nothing else decides, and only then.
func TestAsked(t *testing.T) {
	t.Parallel()
	const uid = "11111111_2222_3333_4444_555555555555"
	asks := map[string]string{"target.workload.openshift.io/telemetry": `{"effect":"PreferredDuringScheduling"}`}
	static := map[string]string{"target.workload.openshift.io/telemetry": "{}", "kubernetes.io/config.source": "file"}
	known := map[string]bool{}
	policy := podmove.Policy{
		Partitions: []podmove.PartitionPolicy{{Name: "telemetry"}},
		Workloads:  []membership.Workload{{Type: "telemetry", Partition: "telemetry", Allowed: []string{"operators"}, ByNamespace: true}},
		Allows: func(namespace, _ string) membership.Refusal {
			switch {
			case known[namespace]:
				return ""
			case namespace == "shop":
				return membership.NotAllowed
			}
			return membership.NamespaceUnknown
		},
	}
	var awaited, announced []string
	p := &Plugin{
		Wake: func() {}, Connection: func(bool) {},
		Announce: func(s cri.Sandbox, _ v1.PodQOSClass) { announced = append(announced, s.Namespace) },
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
	off.Partitions = []podmove.PartitionPolicy{{Name: "telemetry", Off: true}}
	if got := off.Rules().Partition(membership.Pod{Namespace: "operators", Origin: membership.OriginOf(asks)}); got != unitname.Default {
		t.Errorf("a type of a partition that is off has members in %s", got)
	}
}
