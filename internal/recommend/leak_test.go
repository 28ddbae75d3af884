package recommend

import (
	"testing"
	"time"
)

// series returns a point each ten minutes.
func series(length time.Duration, uses shape) []point {
	var list []point
	for since := time.Duration(0); since <= length; since += 10 * time.Minute {
		mebis, life := uses(since)
		list = append(list, point{origin.Add(since), mebis * mebi, life})
	}
	return list
}

// TestTrends: a leak is told from a peak, a wave, a cache that fills, and a program that starts.
func TestTrends(t *testing.T) {
	t.Parallel()
	plus := func(a, b shape) shape {
		return func(since time.Duration) (float64, string) {
			x, life := a(since)
			y, _ := b(since)
			return x + y, life
		}
	}
	// A buffer that is written out each night.
	sawtooth := func(since time.Duration) (float64, string) {
		return 100 + 20*(since%day).Hours(), "a"
	}
	accelerating := func(since time.Duration) (float64, string) { return 50 + since.Hours()*since.Hours()/10, "a" }
	for name, test := range map[string]struct {
		length time.Duration
		uses   shape
		leaks  int
	}{
		"leak":                        {2 * day, leak(50, 5, 0), 1},
		"leak with peaks each night":  {3 * day, plus(nightly(0, 400), leak(50, 5, 0)), 1},
		"leak that is restarted":      {4 * day, leak(50, 5, 0, 2*day), 2},
		"leak that accelerates":       {2 * day, accelerating, 1},
		"slow leak on a wave":         {7 * day, plus(daily(50, 80), leak(50, 2, 0)), 1},
		"six hours of a leak":         {6 * time.Hour, leak(50, 10, 0), 1},
		"five hours of a leak":        {5*time.Hour - time.Minute, leak(50, 10, 0), 0},
		"growth that does not matter": {2 * day, leak(50, 0.2, 0), 0},
		"flat":                        {7 * day, flat(100), 0},
		"peaks":                       {7 * day, nightly(50, 400), 0},
		"wave":                        {7 * day, daily(50, 400), 0},
		"cache that fills":            {2 * day, warmUp(50, 400, 20*time.Hour), 0},
		"start":                       {2 * day, warmUp(50, 400, time.Hour), 0},
		"sawtooth":                    {7 * day, sawtooth, 0},
	} {
		if got := trends(series(test.length, test.uses)); len(got) != test.leaks {
			t.Errorf("%s: %d leaks; want %d", name, len(got), test.leaks)
		}
	}
}

// TestTrendsGap: the growth in a gap of the history belongs to the same process.
func TestTrendsGap(t *testing.T) {
	t.Parallel()
	list := series(10*time.Hour, leak(50, 10, 0))
	list = append(list[:20], list[44:]...) // three hours on each side
	got := trends(list)
	if len(got) != 1 {
		t.Fatalf("%d leaks", len(got))
	}
	if grown := got[0].excess(origin.Add(10*time.Hour)) / mebi; grown < 95 || grown > 105 {
		t.Errorf("%.0fMi; want the 100 of ten hours", grown)
	}
}

// TestExcess: the line through the bases, without the peaks on top of it.
func TestExcess(t *testing.T) {
	t.Parallel()
	found := trends(series(2*day, func(since time.Duration) (float64, string) {
		peak, _ := nightly(0, 400)(since)
		return 50 + 6*since.Hours() + peak, "a"
	}))
	if len(found) != 1 {
		t.Fatalf("%+v", found)
	}
	for since, want := range map[time.Duration]float64{
		0: 0, 10 * time.Hour: 60, 27*time.Hour + 10*time.Minute: 163, 2 * day: 288, -time.Hour: 0, 3 * day: 0,
	} {
		if got := found[0].excess(origin.Add(since)) / mebi; got < want-3 || got > want+3 {
			t.Errorf("after %s %.1fMi; want %.0f", since, got, want)
		}
	}
}

// TestMannKendall has the example of monotone values, ties, and values without a trend.
func TestMannKendall(t *testing.T) {
	t.Parallel()
	values := func(list ...float64) []point {
		points := make([]point, 0, len(list))
		for i, v := range list {
			points = append(points, point{at: origin.Add(time.Duration(i) * time.Hour), bytes: v})
		}
		return points
	}
	for _, test := range []struct {
		series []point
		want   float64
		slope  float64
	}{
		{values(1, 2, 3, 4, 5, 6), 2.630, 1},         // S = 15, variance 6*5*17/18
		{values(1, 2, 2, 3, 4, 4), 2.338, 0.666667},  // S = 13, variance less 2 ties of 2*1*9
		{values(6, 5, 4, 3, 2, 1), 0, -1},            // falls
		{values(5, 5, 5, 5, 5, 5), 0, 0},             // only ties
		{values(1, 2, 3, 4, 500, 6, 7), 2.403, 1.25}, // one value far off
	} {
		if got := mannKendall(test.series); got < test.want-0.01 || got > test.want+0.01 {
			t.Errorf("%v: Z %.3f; want %.3f", test.series, got, test.want)
		}
		if got := senSlope(test.series); got < test.slope-0.3 || got > test.slope+0.3 {
			t.Errorf("%v: slope %.3f; want %.3f", test.series, got, test.slope)
		}
	}
}

// TestFigures has the rounding and the margins.
func TestFigures(t *testing.T) {
	t.Parallel()
	for covered, want := range map[time.Duration]float64{
		time.Hour: 1, day: 1, 2 * day: 0.5, 5 * day: 0.2, 7 * day: 0.15, 14 * day: 0.15,
	} {
		if got := margin(covered); got < want-0.001 || got > want+0.001 {
			t.Errorf("after %s %.3f; want %.3f", covered, got, want)
		}
	}
	for need, want := range map[uint64]uint64{0: 64, 10: 64, 100: 144, 464: 496, 480: 512, 481: 576, 972: 1024, 973: 1088, 4000: 4352} {
		if got := limitFor(need*mebi, 0) / mebi; got != want {
			t.Errorf("for %dMi %dMi; want %d", need, got, want)
		}
	}
	if got := percentile([]float64{5, 1, 4, 2, 3, 6, 7, 8, 9, 10}, 0.95); got != 10 || percentile(nil, 0.95) != 0 || percentile([]float64{3, 1}, 0.5) != 1 {
		t.Errorf("%v", got)
	}
}
