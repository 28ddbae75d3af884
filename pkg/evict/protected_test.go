package evict

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
)

// TestProtectedReason: why a pod is passed over under each policy. A priority just below critical
// is not critical.
func TestProtectedReason(t *testing.T) {
	const cluster, node = partition.ClusterCritical, partition.NodeCritical
	pods := []Pod{{PodMeta: PodMeta{Static: true}}, {}, {}, {}, {}}
	for i, priority := range []int32{cluster - 1, cluster, node - 1, node} {
		pods[1+i].Priority = priority
	}
	for protected, want := range map[Protected][]Skip{
		{}:                      {"", "", "", "", ""},
		DefaultProtected:        {SkipStatic, "", "", "", SkipNodeCritical},
		kubeletProtected:        {SkipStatic, "", SkipClusterCritical, SkipClusterCritical, SkipNodeCritical},
		{ClusterCritical: true}: {"", "", SkipClusterCritical, SkipClusterCritical, SkipClusterCritical},
	} {
		for i, p := range pods {
			if got := protected.reason(p); got != want[i] {
				t.Errorf("%s: pod %d is skipped as %q, want %q", protected, i, got, want[i])
			}
		}
	}
}

func TestParseProtected(t *testing.T) {
	for text, want := range map[string]Protected{
		"none": {}, "static": {Static: true}, "node-critical": {NodeCritical: true},
		"cluster-critical": {NodeCritical: true, ClusterCritical: true}, "kubelet": kubeletProtected,
		"static,node-critical": DefaultProtected, "node-critical,static": DefaultProtected, "static,static": {Static: true},
		"static,cluster-critical": kubeletProtected, "static,node-critical,cluster-critical": kubeletProtected,
	} {
		got, err := ParseProtected(text)
		if err != nil || got != want {
			t.Errorf("%q: got %+v, %v; want %+v", text, got, err, want)
		}
		again, err := ParseProtected(got.String())
		if err != nil || again != got {
			t.Errorf("%q is written %q, which is %+v, %v", text, got, again, err)
		}
	}
	for _, text := range []string{"", ",", "static,", ",static", "Static", "static, node-critical", "none,static", "static,none", "none,none", "all", "guaranteed"} {
		if got, err := ParseProtected(text); err == nil || !strings.Contains(err.Error(), `"`+text+`"`) {
			t.Errorf("%q: got %+v, %v; want an error that quotes it", text, got, err)
		}
	}
	if got := DefaultProtected.String(); got != "static,node-critical" {
		t.Errorf("the default is written %q", got)
	}
}

// TestDecideTakenByProtected: a static pod that takes the memory cannot be evicted, and the kernel
// would kill it at the limit. Pods that keep to their requests are not stopped one after the other
// to make room for it. Those that use more than they request are.
func TestDecideTakenByProtected(t *testing.T) {
	t.Parallel()
	leaker := with(sized("leaker", 0, 300, 0), func(p *Pod) { p.Static, p.QoS = true, v1.PodQOSBestEffort })
	within, over := sized("within", 0, 33, 64), sized("over", 0, 49, 16)
	for name, test := range map[string]struct {
		pods   []Pod
		victim string
	}{
		"within its request":                {[]Pod{leaker, within}, ""},
		"over its request":                  {[]Pod{leaker, within, over}, "over"},
		"exactly its request":               {[]Pod{leaker, sized("a", 0, 64, 64)}, ""},
		"the kernel would spare the leaker": {[]Pod{with(leaker, func(p *Pod) { p.Priority = partition.NodeCritical }), within}, "within"},
		"guaranteed":                        {[]Pod{with(leaker, func(p *Pod) { p.QoS = v1.PodQOSGuaranteed }), within}, "within"},
		"it requests what it uses":          {[]Pod{with(leaker, func(p *Pod) { p.Request = 300 * mi }), within}, "within"},
		"it took less than the pod uses":    {[]Pod{with(leaker, func(p *Pod) { p.Request = 245 * mi }), sized("a", 0, 60, 64)}, "a"},
		"it took more than the pod uses":    {[]Pod{with(leaker, func(p *Pod) { p.Request = 235 * mi }), sized("a", 0, 60, 64)}, ""},
		"the other was not measured":        {[]Pod{leaker, sized("a", 0, -1, 64)}, "a"},
		"it took less than is missing":      {[]Pod{with(leaker, func(p *Pod) { p.Request = 251 * mi }), sized("a", 0, 20, 64)}, "a"},
		"it was not measured":               {[]Pod{with(leaker, func(p *Pod) { p.Measured = false }), within}, "within"},
		"it is not protected":               {[]Pod{with(leaker, func(p *Pod) { p.Static = false }), within}, "leaker"},
	} {
		d := Decide(snapshotOf(50, test.pods...))
		victim := ""
		if d.Victim != nil {
			victim = d.Victim.Name
		}
		if victim != test.victim || d.NoCandidate != (test.victim == "") {
			t.Errorf("%s: victim %q, no candidate %t; want %q", name, victim, d.NoCandidate, test.victim)
		}
	}
	for name, change := range map[string]func(p *Pod){
		"not known":                func(p *Pod) { p.Unknown = true }, // its request is not known either
		"its processes have ended": func(p *Pod) { p.Empty = true },   // the kernel has nothing to kill
	} {
		if got := DefaultProtected.taken([]Pod{with(leaker, change)}); got != 0 {
			t.Errorf("%s: %d bytes taken", name, got)
		}
	}
	if with(within, func(p *Pod) { p.Unknown = true }).withinRequest() {
		t.Error("the request of a pod that is not known is taken for its own")
	}
}
