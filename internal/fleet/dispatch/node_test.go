package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"nodepartition/internal/fleet"
)

// TestNodeDead: the Job of a node that loses its power in its trial has failed at its deadline. From
// Kubernetes 1.31 on the controller of Jobs sets FailureTarget then, and Failed only when no pod of
// the Job terminates any more: the pod on a dead node does so for ever.
func TestNodeDead(t *testing.T) {
	for action, lines := range map[fleet.Action][]string{
		fleet.Install: {
			"1 node kept the partition, 1 failed",
			"failed: worker-00: timeout: its Job has not ended within 20m0s",
		},
		fleet.Uninstall: {
			"1 node have no file of it any more, 1 failed",
			"failed: worker-00: timeout: its Job has not ended within 20m0s",
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 2)
			w.ends["worker-00"] = "dead"
			start := time.Now()
			w.want(w.roll(action, 1, "maxFailures: 1"), fleet.CodeFailed, lines...)
			if took := time.Since(start); took > jobDeadline+jobTakes+time.Minute {
				t.Errorf("%s: %s", action, took)
			}
		})
	}
}
