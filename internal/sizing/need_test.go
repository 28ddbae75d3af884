package sizing

import (
	"math"
	"testing"
	"time"
)

// flat returns hours of so many mebibytes.
func flat(hours int, mib float64) []float64 {
	list := make([]float64, hours)
	for i := range list {
		list[i] = mib * mebi
	}
	return list
}

func TestNeed(t *testing.T) {
	rise := flat(6, 100)
	for i := range rise {
		rise[i] += float64(i) * 20 * mebi
	}
	peakBefore := flat(12, 100)
	peakBefore[2] = 400 * mebi
	for _, test := range []struct {
		name string
		History
		wantMiB float64
	}{
		{"nothing known", History{}, 0},
		// 0.8103 x 20 x 18/6 / sqrt(6) are 19.8.
		{"flat for six hours", History{flat(6, 100), 6 * time.Hour, 10, 20 * mebi}, 119.8},
		{"twice as long", History{flat(12, 100), 12 * time.Hour, 10, 20 * mebi}, 104.7},
		{"a week", History{flat(168, 100), 168 * time.Hour, 10, 20 * mebi}, 103.1},
		{"members not measured", History{flat(6, 100), 6 * time.Hour, 10, 0}, 119.8},
		{"one member", History{flat(6, 100), 6 * time.Hour, 1, 0}, 199.2},
		{"a member larger than all", History{flat(6, 100), 6 * time.Hour, 1, 300 * mebi}, 199.2},
		{"a peak long ago is a floor", History{peakBefore, 12 * time.Hour, 10, 20 * mebi}, 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Of(test.History).Bytes / mebi; math.Abs(got-test.wantMiB) > 0.1 {
				t.Errorf("need is %.1fMi, want %.1fMi", got, test.wantMiB)
			}
		})
	}
	restless := flat(168, 100)
	for i := range restless {
		restless[i] -= float64(i%2) * 10 * mebi
	}
	if got, want := Of(History{restless, 168 * time.Hour, 40, mebi}).Bytes/mebi, 120.0; math.Abs(got-want) > 0.1 {
		t.Errorf("with a usage that goes up and down by 10Mi the need is %.1fMi, want %.1fMi", got, want)
	}
	steady, rising := Of(History{flat(6, 200), 6 * time.Hour, 10, 20 * mebi}), Of(History{rise, 6 * time.Hour, 10, 20 * mebi})
	if rising.Growth <= steady.Growth {
		t.Errorf("a rise leaves room for %.0f bytes, and a steady usage for %.0f: want more, because its hours depend on each other",
			rising.Growth, steady.Growth)
	}
}
