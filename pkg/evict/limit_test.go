package evict

import (
	"testing"
	"time"

	"nodepartition/internal/cgroupfs"
)

func TestLimitIsLowered(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pod("greedy").containers[0].uses = 1 * mi }) // 651 MiB
		failures := 2
		n.lower = func() error {
			if failures--; failures >= 0 {
				return errBusy
			}
			n.files(partition, map[string]string{"memory.max": number(500 * mi)})
			return nil
		}
		m := n.started(hardOnly)
		n.run(m, time.Minute)
		n.expect()
		c := hardOnly
		c.Limit, c.Lowering = 500*mi, true
		m.SetConfig(c)
		n.run(m, 59*time.Second)
		n.expect("kill greedy.c1", "kill greedy.c2", "kill modest.c1", "tell greedy", "lower", "tell modest", "confirm greedy", "confirm modest")
		const failed = "warn applying the lowered memory limit: the server is busy; it is tried again"
		n.heard("signalled", "evicting greedy hard evict", "signalled", "evicting modest hard evict", failed,
			"count hard evict", "evicted greedy evict", "count hard evict", "evicted modest evict")
		n.run(m, time.Minute)
		n.expect("lower")
		n.heard(failed)
		n.run(m, time.Minute)
		n.expect("lower")
		n.run(m, 10*time.Minute)
		n.expect()
		n.heard()
		if r := m.Report(); r.Limit != 500*mi || r.Available != 350*mi {
			n.t.Errorf("reported %+v", r)
		}
	})
}

// TestDryRunLowersNoLimit: the limit is lowered only after the dry run.
func TestDryRunLowersNoLimit(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pods = n.pods[1:] }) // 450 MiB
		n.lower = func() error { return nil }
		c := hardOnly
		c.Limit, c.Lowering, c.DryRun = 600*mi, true, true
		m := n.started(c)
		n.run(m, time.Minute)
		n.expect()
		c.DryRun = false
		m.SetConfig(c)
		n.run(m, 30*time.Second)
		n.expect("lower")
	})
}

// TestLookBelowAnotherLimit: if the limit in force stays below the configured one, the thresholds
// are parts of it, for the time of the next poll and for the report, too.
func TestLookBelowAnotherLimit(t *testing.T) {
	t.Parallel()
	m := New(Options{})
	s := Snapshot{
		Now: time.Unix(1, 0), Config: Config{Limit: 2000 * mi, Hard: 200 * mi}, Memory: cgroupfs.MemoryReading{Current: 850 * mi, Max: 1000 * mi},
		State: State{Cooldown: map[string]time.Time{}},
	}
	d := Decide(s)
	m.publish(s, d)
	if report := m.Report(); d.Crossed != "" || report.Hard != 100*mi || report.Available != 150*mi {
		t.Errorf("crossed %q, %+v", d.Crossed, report)
	}
	if next := nextLook(s, d, nil, 0, MaxBurst); next != Interval(50*mi, 100*mi, 0, MaxBurst) {
		t.Errorf("looks again in %s, want %s", next, Interval(50*mi, 100*mi, 0, MaxBurst))
	}
}
