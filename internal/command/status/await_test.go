package status

import (
	"testing"

	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/pkg/slices/decision"
	"node-partition.io/node-partition/tests/fakenode"
)

// TestIsLeaving: pods leave partitions that are all switched off, whatever the last reconcile of a
// service has seen. Nothing leaves a partition that is on, or one of which that is not known.
func TestIsLeaving(t *testing.T) {
	t.Parallel()
	n := fakenode.Guarded(t)
	n.TellPods()
	n.Listen("/run/nri/nri.sock")
	want := func(what string, want bool) {
		t.Helper()
		if got := isLeaving(t.Context(), n.Options()); got != want {
			t.Errorf("%s: a pod leaves: %t", what, got)
		}
	}
	want("on", false)
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration(""))
	n.Generate(0)
	want("off", true)
	n.Write(config.StateDir+"/units/"+decision.FileName, "{")
	want("not known", false)
}
