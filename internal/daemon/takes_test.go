package daemon

import (
	"slices"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/fakenode"
)

// TestKubeletTakes: a kubelet that starts and makes the system partition takes that one alone. The
// daemon ends if there is no other.
func TestKubeletTakes(t *testing.T) {
	t.Parallel()
	for sections, want := range map[string][]partition.Name{
		twoSections: {"telemetry"}, strings.SplitAfter(twoSections, "\n")[0]: nil,
	} {
		m, n, calls, _ := built(t)
		n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration(sections))
		if want == nil {
			n.RemoveAll(partition.Name("telemetry").Cgroup())
		}
		n.Generate(0)
		m.reload()
		ended := false
		m.cancel = func() { ended = true }
		n.RunKubelet("--feature-gates=NodeSystemPartition=true")
		m.lookAtKubelet()
		select {
		case <-m.reloaded:
			m.reload()
		default:
		}
		if got := m.partitions.names(); !slices.Equal(got, want) || ended != (want == nil) || len(calls.calls) > 0 {
			t.Errorf("%s: %q stay, ended: %t, did %q; want %q", sections, got, ended, calls.calls, want)
		}
	}
}
