package evict

import (
	"testing"
	"time"
)

func TestManagerLowerLimit(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pod("greedy").containers[0].uses = 1 * mi }) // 651 MiB
		failures := 2
		n.lower = func() error {
			if failures--; failures >= 0 {
				return errBusy
			}
			n.files(systemCgroup, map[string]string{"memory.max": number(500 * mi)})
			return nil
		}
		m := n.started(hardOnly)
		n.run(m, time.Minute)
		n.expect()
		c := hardOnly
		c.Limit, c.Lowering = 500*mi, true
		m.SetConfig(c)
		n.run(m, 59*time.Second)
		n.expect("kill greedy.c1", "kill greedy.c2", "kill modest.c1", "evict greedy", "lower", "evict modest", "confirm greedy", "confirm modest")
		const failed = "warn applying the lowered memory limit: the server is busy; it is tried again, within an hour"
		n.expectEvents("signalled", "evicting greedy hard evict", "signalled", "evicting modest hard evict", failed,
			"count hard evict", "evicted greedy evict", "count hard evict", "evicted modest evict")
		n.run(m, time.Minute)
		n.expect("lower")
		n.expectEvents(failed)
		n.run(m, 2*time.Minute)
		n.expect("lower")
		n.run(m, 10*time.Minute)
		n.expect()
		n.expectEvents()
		if r := m.Report(); r.Limit != 500*mi || r.Available != 350*mi {
			n.t.Errorf("reported %+v", r)
		}
	})
}

// TestLoweringsOther: a limit that was not applied yet does not wait for the pause of the one
// before.
func TestLoweringsOther(t *testing.T) {
	var l lowerings
	now := noon
	for range 7 { // the pause is an hour by then
		if !l.due(600*mi, now) {
			t.Fatal("not due")
		}
		now = l.next.Add(1)
	}
	now = l.next.Add(-maxLoweringPause + time.Minute)
	if l.due(600*mi, now) || !l.due(400*mi, now) {
		t.Errorf("due in %s, want another limit at once and no other", l.next.Sub(now))
	}
	if l.due(400*mi, now.Add(retryInterval)) || !l.due(400*mi, now.Add(retryInterval+1)) {
		t.Error("the pause of the other limit does not begin with the shortest")
	}
}

// TestManagerLimitRaised: the limit in force counts, and is not changed.
func TestManagerLimitRaised(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pod("greedy").containers[0].uses = 3000 * mi })
		n.lower = func() error { return nil }
		n.files(systemCgroup, map[string]string{"memory.max": number(8000 * mi)})
		m := n.started(hardOnly)
		n.run(m, 10*time.Minute)
		n.expect()
		if events := n.takeEvents(); len(events) == 0 || len(events) > 11 || events[0][:15] != "warn memory.max" {
			n.t.Errorf("events %q", events)
		}
		if r := m.Report(); r.Limit != 8000*mi || r.Crossed != "" {
			n.t.Errorf("reported %+v", r)
		}
		n.set(func() { n.pod("greedy").containers[0].uses = 7300 * mi })
		n.run(m, time.Second)
		n.expect("kill greedy.c1", "kill greedy.c2", "evict greedy")
	})
}
