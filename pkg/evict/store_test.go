package evict

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestStoreUnwritableFile(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.manager(hardOnly)
		m.Store = Store(filepath.Join(n.root, "nowhere", "evictions.json"))
		m.executor.load(m.present().Cooldown)
		n.run(m, 4*time.Second)
		n.expect("kill greedy.c1", "kill greedy.c2", "evict greedy", "confirm greedy")
		events := n.takeEvents()
		if !slices.Contains(events, "count failed state") || !slices.Contains(events, "evicted greedy evict") {
			n.t.Errorf("events %q", events)
		}
	})
}

func TestHistoryBounded(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.started(hardOnly)
		for i := range historySize + 5 {
			n.run(m, 4*time.Second)
			n.start(sized(fmt.Sprint("p", i), 0, 0, 0), 500)
		}
		n.run(m, 4*time.Second)
		h := n.history()
		if len(h.Last) != historySize || h.Last[historySize-1].UID != fmt.Sprint("p", historySize+4) || h.Last[0].UID != "p5" {
			n.t.Errorf("kept are %d, %s to %s", len(h.Last), h.Last[0].UID, h.Last[len(h.Last)-1].UID)
		}
		n.run(m, hardOnly.Cooldown)
		n.start(sized("last", 0, 0, 0), 500)
		n.run(m, 4*time.Second)
		if h := n.history(); len(h.Cooldown) != 1 {
			n.t.Errorf("cooldowns that are over are kept: %v", h.Cooldown)
		}
	})
}

// TestCooldownAfterClockSetBack: a cooldown that was written before the clock was set back lasts no
// longer than the configured one.
func TestCooldownAfterClockSetBack(t *testing.T) {
	bubble(t, func(n *node) {
		s := Store(filepath.Join(n.root, "evictions.json"))
		h := History{Cooldown: map[string]time.Time{"far": time.Now().Add(1000 * time.Hour), "near": time.Now().Add(time.Minute)}}
		if err := s.write(h); err != nil {
			n.t.Fatal(err)
		}
		m := n.started(hardOnly)
		for owner, want := range map[string]time.Duration{"far": hardOnly.Cooldown, "near": time.Minute} {
			if left := time.Until(m.executor.state.Cooldown[owner]); left != want {
				n.t.Errorf("the cooldown of %s lasts %s, want %s", owner, left, want)
			}
		}
	})
}
