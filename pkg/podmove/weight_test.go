package podmove

import (
	"math"
	"testing"
)

// TestSharesOfMilliCPU has both ends of the range: shares are cut to whole numbers, and to 2 at
// least and 262144 at most.
func TestSharesOfMilliCPU(t *testing.T) {
	for _, test := range []struct {
		milli int64
		want  uint64
		why   string
	}{
		{math.MinInt64, 2, "less than nothing is nothing"},
		{-1, 2, "less than nothing is nothing"},
		{0, 2, "no request is the minimum"},
		{1, 2, "one share is less than the minimum"},
		{2, 2, "the first request that reaches the minimum"},
		{3, 3, "the first above it"},
		{100, 102, "a tenth of a CPU, cut to a whole number"},
		{1000, 1024, "one CPU"},
		{255_999, 262_142, "just below the maximum"},
		{256_000, 262_144, "256 CPUs are the maximum"},
		{256_001, 262_144, "more is not more"},
		{math.MaxInt64, 262_144, "and does not overflow"},
	} {
		if got := SharesOfMilliCPU(test.milli); got != test.want {
			t.Errorf("%dm is %d shares, want %d: %s", test.milli, got, test.want, test.why)
		}
	}
}

// TestFormulas: both formulas map the range of shares, 2 to 262144, to that of weights, 1 to 10000,
// and differ in between.
func TestFormulas(t *testing.T) {
	for _, test := range []struct {
		formula Formula
		weights map[uint64]uint64 // by shares
	}{
		{Linear, map[uint64]uint64{
			0: 1, 1: 1, 2: 1, // fewer than the minimum are the minimum
			28: 1, 29: 2, // the first that make a difference
			307: 12, 716: 28, 1024: 39, // as the kubelet 1.36.3 for 300m, 700m and one CPU
			262_143: 9999, 262_144: 10000,
		}},
		{Quadratic, map[uint64]uint64{2: 1, 102: 17, 1024: 100, 262_144: 10000}},
	} {
		for shares, want := range test.weights {
			if got := test.formula.Weight(shares); got != want {
				t.Errorf("%s makes %d of %d shares, want %d", test.formula.Name, got, shares, want)
			}
		}
	}
}
