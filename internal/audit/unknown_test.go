package audit

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestRunScoreOfItsOwn: a container with the right to do so may have set its own score, as
// kube-proxy does with -999. Another container cannot.
func TestRunScoreOfItsOwn(t *testing.T) {
	t.Parallel()
	secured := func(c v1.SecurityContext) change {
		return pod("batch", func(p *v1.Pod) { p.Spec.Containers[0].SecurityContext = &c })
	}
	yes := true
	for name, test := range map[string]struct {
		change change
		want   int
	}{
		"privileged":        {secured(v1.SecurityContext{Privileged: &yes}), 0},
		"with SYS_RESOURCE": {secured(v1.SecurityContext{Capabilities: &v1.Capabilities{Add: []v1.Capability{"SYS_RESOURCE"}}}), 0},
		"with all":          {secured(v1.SecurityContext{Capabilities: &v1.Capabilities{Add: []v1.Capability{"ALL"}}}), 0},
		"with NET_ADMIN":    {secured(v1.SecurityContext{Capabilities: &v1.Capabilities{Add: []v1.Capability{"NET_ADMIN"}}}), 1},
		"without rights":    {func(*Snapshot) {}, 1},
	} {
		s := healthy(t)
		changes(test.change, score(batchScope, -999))(s)
		if report := Run(s); len(report.Findings) != test.want {
			t.Errorf("%s: %+v; want %d findings", name, report.Findings, test.want)
		}
	}
}

// TestRunResized: runtimes set the score of a container when it starts, and not when its memory
// request is changed.
func TestRunResized(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	pod("app", func(p *v1.Pod) {
		p.Generation = 2
		p.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = resource.MustParse("60Mi")
	})(s)
	score(appScope, 990)(s)
	if report := Run(s); len(report.Findings) != 0 {
		t.Errorf("%+v", report.Findings)
	}
}

// TestRunOverhead: a RuntimeClass with an overhead, such as that of Kata Containers, runs containers
// in a sandbox, which has the limits in place of their scopes.
func TestRunOverhead(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	pod("batch", func(p *v1.Pod) {
		p.Spec.Overhead = v1.ResourceList{v1.ResourceMemory: resource.MustParse("120Mi")}
	})(s)
	s.Cgroups[batchScope] = Files{cpuWeight: "79", memoryMax: "1073741824", cpuMax: "max 100000"}
	score(batchScope, 0)(s)
	if report := Run(s); len(report.Findings) != 0 {
		t.Errorf("%+v", report.Findings)
	}
}
