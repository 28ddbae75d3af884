package evict

import (
	"os"
	"strings"
	"testing"
	"time"
)

// withCache starts a manager far from its threshold: pods use 150 MiB, and page cache 400 MiB.
func (n *node) withCache() *Manager {
	n.set(func() {
		n.pods = n.pods[2:]
		n.cache = [3]uint64{200 * mi, 200 * mi, 0}
	})
	return n.started(hardOnly)
}

// TestReportPageCache: this holds far from the threshold, too.
func TestReportPageCache(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.withCache()
		for range 30 {
			n.run(m, 110*time.Millisecond)
			if r := m.Report(); r.Available != 850*mi || r.Memory.ActiveFile != 200*mi {
				n.t.Fatalf("reported %+v", r)
			}
		}
		n.set(func() { n.cache = [3]uint64{50 * mi, 50 * mi, 0}; n.pod("critical").containers[0].uses = 250 * mi })
		n.run(m, statInterval+maxPollInterval)
		if r := m.Report(); r.Available != 750*mi {
			n.t.Errorf("reported %+v", r)
		}
	})
}

// TestReportLimitRaised: what is available is below the limit that is reported, also before
// memory.stat is read again.
func TestReportLimitRaised(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.withCache()
		n.run(m, statInterval)
		n.files(n.slice, map[string]string{"memory.max": number(4000 * mi)})
		n.run(m, statInterval/2)
		if r := m.Report(); r.Limit != 4000*mi || r.Memory.Max != 4000*mi || r.Available != 3850*mi {
			n.t.Errorf("reported %+v", r)
		}
	})
}

// TestReportLimitLost: a limit that the kernel does not have is not guarded. That is said.
func TestReportLimitLost(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.withCache()
		n.run(m, time.Minute)
		n.takeEvents()
		if err := os.WriteFile(n.path(n.slice, "memory.max"), []byte("max\n"), 0o644); err != nil {
			n.t.Fatal(err)
		}
		n.run(m, retryInterval)
		n.expectEvents()
		n.run(m, retryInterval)
		if events := n.takeEvents(); len(events) == 0 || !strings.Contains(events[0], "is max, and the configuration has 1048576000 bytes") {
			n.t.Errorf("events %q", events)
		}
	})
}
