package sizing

import (
	"testing"
	"time"
)

// byDefault is the threshold of a section that has none.
func byDefault(limit uint64) uint64 { return max(limit/20, 32*mebi) }

// TestAdvise: the limit has room for the need and for the requests above its threshold, and leaves
// the alert for a nearly full partition silent at the peak.
func TestAdvise(t *testing.T) {
	t.Parallel()
	if a := Advise(History{}, 0, byDefault); a != (Advice{}) {
		t.Errorf("of nothing: %+v", a)
	}
	for name, test := range map[string]struct {
		peak, requests uint64 // MiB
		want           uint64
	}{
		"small":        {4, 0, 64},
		"usual":        {200, 0, 256},   // 214 and 32
		"requests":     {200, 300, 336}, // 300 and 32
		"large":        {8000, 0, 9216}, // 8571 and 461
		"steps of 64":  {600, 0, 704},   // 643 and 35
		"a forged one": {1 << 40, 0, 0},
	} {
		h := History{Hours: flat(24, float64(test.peak)), Length: day, Members: 15, Largest: float64(test.peak*mebi) * 0.43}
		a := Advise(h, test.requests*mebi, byDefault)
		if test.want > 0 && a.LimitBytes != test.want*mebi {
			t.Errorf("%s: %dMi of %dMi; want %dMi", name, a.LimitBytes/mebi, a.NeedBytes/mebi, test.want)
		}
		if a.LimitBytes < a.NeedBytes+a.ThresholdBytes {
			t.Errorf("%s: %+v", name, a)
		}
	}
	// An operator's evictionHard of 99 %, in a drill, leaves no limit: it is beyond each node.
	nearly := func(limit uint64) uint64 { return limit / 100 * 99 }
	if a := Advise(History{Hours: flat(24, 200), Length: day, Members: 15, Largest: mebi}, 0, nearly); a.LimitBytes != mostLimit {
		t.Errorf("a threshold of 99 %%: %d", a.LimitBytes)
	}
	a := Advise(History{Hours: flat(12, 200), Length: 11*time.Hour + 20*time.Minute, Members: 15, Largest: 60 * mebi}, 0, byDefault)
	if got, want := a.Claim(), "256Mi: for 15 members and 11h20m, 1 of 200 such nodes would exceed it in the 12h40m after"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
	// The peak is before the hours that count, and the need is the peak: the alert has to be silent.
	h := History{Hours: flat(24*30, 3000), Length: 30 * day, Members: 300, Largest: mebi}
	h.Hours[3] += 500 * mebi
	if a := Advise(h, 0, byDefault); a.LimitBytes-a.ThresholdBytes-uint64(a.Need.Peak) < a.LimitBytes/leastMargin {
		t.Errorf("%+v", a)
	}
}

// TestLeak: what grows without returning is named; peaks, steps, what fills up and a short history
// are not.
func TestLeak(t *testing.T) {
	t.Parallel()
	of := func(hours int, use func(i int) float64) []float64 {
		list := make([]float64, hours)
		for i := range list {
			list[i] = use(i) * mebi
		}
		return list
	}
	for name, test := range map[string]struct {
		hours []float64
		leaks bool
	}{
		"grows":         {of(24, func(i int) float64 { return 200 + 5*float64(i) }), true},
		"with peaks":    {of(24, func(i int) float64 { return 200 + 5*float64(i) + float64(i%3)*90 }), true},
		"grows little":  {of(24, func(i int) float64 { return 200 + float64(i) }), false},
		"a little part": {of(24, func(i int) float64 { return 2000 + 5*float64(i) }), false},
		"a short time":  {of(6, func(i int) float64 { return 200 + 50*float64(i) }), false},
		"nightly":       {of(96, func(i int) float64 { return 200 + float64(i%24)*10 }), false},
		"a step":        {of(24, func(i int) float64 { return 200 + float64(i/12)*200 }), false},
		"fills up":      {of(24, func(i int) float64 { return 400 - 300/float64(i+1) }), false},
		"returns":       {of(24, func(i int) float64 { return 200 + 5*float64(min(i, 24-i)) }), false},
	} {
		if got := leakOf(test.hours); (got != nil) != test.leaks {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
