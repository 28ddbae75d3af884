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
		if peak, _ := m.Peak(time.Minute); peak != used {
			n.t.Errorf("%d; want the usage of %d, without page cache", peak, used)
		}
	})
}

// TestReportUsedPeak: a peak is reported for five minutes, however often the report is read, with a
// limit and without one. Page cache does not count.
func TestReportUsedPeak(t *testing.T) {
	for name, limit := range map[string]string{"a limit": number(10_000 * mi), "no limit": "max\n"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.remove(systemCgroup + "/memory.max")
				n.files(systemCgroup, map[string]string{"memory.max": limit})
				m := n.started(Settings{})
				n.run(m, time.Second)
				before := m.Report()
				if before.UsedPeak != before.Memory.Used() || before.UsedPeak == 0 {
					n.t.Fatalf("%+v; want the present usage", before)
				}
				high := before.UsedPeak + 700*mi
				n.set(func() { n.pod("modest").containers[0].uses += 700 * mi; n.cache[0] += 900 * mi })
				n.run(m, 2*time.Second)
				n.set(func() { n.pod("modest").containers[0].uses -= 700 * mi })
				for range 290 {
					n.run(m, time.Second)
					if r := m.Report(); r.UsedPeak != high {
						n.t.Fatalf("%+v; want a peak of %d", r, high)
					}
				}
				n.run(m, 30*time.Second)
				if r := m.Report(); r.UsedPeak != before.UsedPeak || r.Memory.Used() != before.UsedPeak {
					n.t.Errorf("%+v; want a peak of %d", r, before.UsedPeak)
				}
			})
		})
	}
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

// TestWatchStatDue: of polls that are 250 ms apart, a little early or late, the one after a second
// reads memory.stat, and none earlier.
func TestWatchStatDue(t *testing.T) {
	t.Parallel()
	w := watch{statAt: noon}
	for after, want := range map[time.Duration]bool{
		750 * time.Millisecond: false, 760 * time.Millisecond: false, 990 * time.Millisecond: true, time.Second: true, 2 * time.Second: true,
	} {
		if got := w.statDue(noon.Add(after)); got != want {
			t.Errorf("after %s: %t", after, got)
		}
	}
}
