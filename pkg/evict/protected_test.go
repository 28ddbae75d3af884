package evict

import (
	"strings"
	"testing"

	"nodepartition/internal/priority"
)

// TestProtectedPriorityBounds: a priority just below critical is not critical.
func TestProtectedPriorityBounds(t *testing.T) {
	for value, want := range map[int32]Skip{
		priority.ClusterCritical - 1: "",
		priority.ClusterCritical:     SkipClusterCritical,
		priority.NodeCritical - 1:    SkipClusterCritical,
		priority.NodeCritical:        SkipNodeCritical,
	} {
		if got := kubeletProtected.reason(Pod{Priority: value}); got != want {
			t.Errorf("priority %d: skipped as %q, want %q", value, got, want)
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
