package evict

import (
	"testing"
	"time"
)

// TestManagerPeak: the peak of a minute is known, although usage has fallen since. It ends with the
// minute, ten seconds later at most.
func TestManagerPeak(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.manager(Settings{})
		if _, noted := m.Peak(time.Minute); noted {
			n.t.Error("a peak before the first poll")
		}
		n.run(m, 2*time.Second)
		used := m.Report().Memory.Used()
		n.set(func() { n.pod("modest").containers[0].uses += 700 * mi; n.cache[0] += 300 * mi })
		n.run(m, 2*time.Second)
		n.set(func() { n.pod("modest").containers[0].uses -= 700 * mi })
		n.run(m, 55*time.Second)
		if peak, noted := m.Peak(time.Minute); !noted || peak != used+700*mi {
			n.t.Errorf("%d, %t; want a peak of %d", peak, noted, used+700*mi)
		}
		n.run(m, 16*time.Second)
		peak, _ := m.Peak(time.Minute)
		if r := m.Report(); peak != used || r.Memory.Used() != used || r.UsedPeak != used+700*mi {
			n.t.Errorf("%d, %+v; want the usage of %d, without page cache, and the peak in the report", peak, r, used)
		}
	})
}

// TestReportUsedPeakAfterFailure: after a failed poll a report counts no page cache as used either,
// and the peak before it is remembered.
func TestReportUsedPeakAfterFailure(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.cache[1] = 200 * mi })
		n.files(systemCgroup, map[string]string{"memory.max": number(10_000 * mi)})
		m := n.started(Settings{})
		n.run(m, 100*time.Millisecond)
		want := m.Report()
		n.files(systemCgroup, map[string]string{"memory.max": "lots\n                "})
		m.step(n.ctx)
		if r := m.Report(); !r.Time.IsZero() {
			n.t.Fatalf("%+v of a failed poll", r)
		}
		n.files(systemCgroup, map[string]string{"memory.max": number(10_000 * mi)})
		m.step(n.ctx)
		if r := m.Report(); r.UsedPeak != want.UsedPeak || r.Memory.Used() != want.Memory.Used() {
			n.t.Errorf("%+v; want the usage of %+v", r, want)
		}
	})
}

// TestPeaks: the last five minutes are whole at any moment, and older usage is forgotten ten
// seconds later at most, also if nothing was noted for long.
func TestPeaks(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for _, peak := range []time.Duration{0, time.Second, 9999 * time.Millisecond, 10 * time.Second, 299 * time.Second} {
		for _, step := range []time.Duration{time.Second, 7 * time.Second, 301 * time.Second, time.Hour} {
			var r peaks
			r.note(start, 1)
			r.note(start.Add(peak), 9)
			for after := step; after <= 2*time.Hour; after += step {
				now := start.Add(peak + after)
				switch got := r.most(now, PeakWindow); {
				case after <= PeakWindow && got != 9:
					t.Fatalf("a peak at %s is forgotten after %s: %d", peak, after, got)
				case after > PeakWindow+peakSlot && got == 9:
					t.Fatalf("a peak at %s is known after %s", peak, after)
				}
			}
		}
	}
}

// TestWatchStatDue: of polls that are 500 ms apart, a little early or late, the one after a second
// reads memory.stat, and none earlier.
func TestWatchStatDue(t *testing.T) {
	t.Parallel()
	w := watch{statAt: noon}
	for after, want := range map[time.Duration]bool{
		500 * time.Millisecond: false, 510 * time.Millisecond: false, 990 * time.Millisecond: true, time.Second: true, 2 * time.Second: true,
	} {
		if got := w.statDue(noon.Add(after)); got != want {
			t.Errorf("after %s: %t", after, got)
		}
	}
}
