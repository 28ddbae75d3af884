package evict

import (
	"testing"
	"time"

	"nodepartition/internal/thresholds"
)

// TestManagerTakePeak: a peak between two calls is known, although usage has fallen since. The next
// call begins again.
func TestManagerTakePeak(t *testing.T) {
	bubble(t, func(n *node) {
		// It polls each second.
		m := n.started(Settings{Thresholds: thresholds.Thresholds{Limit: 1000 * mi}, Off: true})
		n.run(m, 2*time.Second)
		first := m.TakePeak()
		if first.Polls == 0 || first.Used != first.UsedLow {
			n.t.Errorf("%+v; want steady usage", first)
		}
		n.set(func() { n.pod("modest").containers[0].uses += 700 * mi })
		n.run(m, 2*time.Second)
		n.set(func() { n.pod("modest").containers[0].uses -= 700 * mi })
		n.run(m, 2*time.Second)
		peak := m.TakePeak()
		if peak.Used != first.Used+700*mi || peak.UsedLow != first.Used || peak.Current < peak.Used {
			n.t.Errorf("%+v; want a peak of %d", peak, first.Used+700*mi)
		}
		if again := m.TakePeak(); again != (Peak{}) {
			n.t.Errorf("%+v before the next poll", again)
		}
		// Page cache is no usage.
		n.set(func() { n.cache[0] += 300 * mi })
		n.run(m, 2*time.Second)
		if cached := m.TakePeak(); cached.Used != first.Used || cached.Current != first.Current+300*mi {
			n.t.Errorf("%+v; want the usage of %+v and more page cache", cached, first)
		}
	})
}
