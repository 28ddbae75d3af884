package evict

import (
	"slices"
	"testing"
	"time"
)

// TestLeakWhileAnotherEnds: memory that vanishes between two looks, while the last pod that went does not end, is somebody else's.
func TestLeakWhileAnotherEnds(t *testing.T) {
	t.Run("after there was enough", func(t *testing.T) {
		bubble(t, func(n *node) {
			n.noAPI = true
			n.set(func() { n.pod("greedy").containers[0].immortal = true })
			m := n.started(hardOnly)
			n.run(m, 50*time.Millisecond)
			n.expect("kill greedy.c1", "kill greedy.c2")
			n.run(m, time.Second) // 250 are left
			n.set(func() { n.pod("modest").containers[0].uses = 510 * mi })
			n.run(m, time.Second) // 40 of 100 are left
			n.expect("kill modest.c1")
		})
	})
	t.Run("after a restart of the program", func(t *testing.T) {
		bubble(t, func(n *node) {
			n.noAPI = true
			n.set(func() { n.pod("greedy").containers[0].immortal = true })
			m := n.started(hardOnly)
			n.run(m, 50*time.Millisecond)
			n.expect("kill greedy.c1", "kill greedy.c2")
			n.stop(m)
			n.boot()
			n.set(func() { n.pod("modest").containers[0].uses = 510 * mi })
			m = n.started(hardOnly)
			n.run(m, time.Second)
			if did := n.all(); !slices.Contains(did, "kill modest.c1") {
				n.t.Errorf("did %q", did)
			}
		})
	})
}
