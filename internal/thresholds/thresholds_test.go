package thresholds

import (
	"math"
	"testing"
)

// TestLent: a limit that is guarded is lent as far as it is above the configured one, and within
// the burst.
func TestLent(t *testing.T) {
	t.Parallel()
	const mi = 1 << 20
	lends := Thresholds{Limit: 1000 * mi, Burst: 400 * mi}
	for name, test := range map[string]struct {
		thresholds    Thresholds
		guarded, want uint64
	}{
		"nothing":                {lends, 1000 * mi, 0},
		"some":                   {lends, 1200 * mi, 200 * mi},
		"all":                    {lends, 1400 * mi, 400 * mi},
		"an operator's":          {lends, 1401 * mi, 0},
		"lowered by an operator": {lends, 800 * mi, 0},
		"no limit in force":      {lends, math.MaxUint64, 0},
		"without a burst":        {Thresholds{Limit: 1000 * mi}, 1200 * mi, 0},
	} {
		if got := test.thresholds.Lent(test.guarded); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}
