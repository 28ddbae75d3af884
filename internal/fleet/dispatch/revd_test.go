package dispatch

import (
	"testing"
	"testing/synctest"

	"nodepartition/internal/fleet"
)

// The numbers are to be said when nothing has happened for five minutes. The lock, which is renewed
// every 15 seconds, ends each wait before that.
func TestRevdProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.ends["worker-00"] = "hangs"
		w.roll(fleet.Install, 1, "")
		if !w.saidHas("waits for Jobs: ") {
			t.Errorf("in %s without a step: %q", jobDeadline, w.said)
		}
	})
}
