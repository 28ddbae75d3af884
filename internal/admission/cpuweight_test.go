package admission

import (
	"math"
	"testing"
)

// TestSharesOfMilliCPU checks both ends of the range: shares are rounded down to whole numbers, and
// are at least 2 and at most 262144.
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

// TestFormulaWeight: both formulas map the range of shares, 2 to 262144, to that of weights, 1 to
// 10000, and differ in between. The linear column is the formula of KEP-2254 in whole numbers. The
// quadratic column was computed with 60 digits from the formula of the Kubernetes blog of January
// 2026, 10^((l²+125l)/612-7/34) for l the binary logarithm of the shares, rounded up.
func TestFormulaWeight(t *testing.T) {
	for _, test := range []struct{ shares, linear, quadratic uint64 }{
		{0, 1, 0},            // runtimes write no weight without shares
		{1, 1, 1}, {2, 1, 1}, // fewer than the minimum count as the minimum
		{3, 1, 2}, {10, 1, 4},
		{28, 1, 7}, {29, 2, 7}, // the first that differ in the linear formula
		{51, 2, 11}, {102, 4, 17}, {128, 5, 21}, {204, 8, 29}, {256, 10, 35},
		{307, 12, 40}, {716, 28, 76}, // 300m and 700m
		{512, 20, 59}, {1023, 39, 100}, {1024, 39, 100}, {1025, 40, 101}, {1536, 59, 138}, {2048, 79, 174},
		{4096, 157, 303}, {8192, 313, 532}, {10240, 391, 639}, {16384, 625, 942}, {65536, 2500, 3023}, {131072, 5000, 5478},
		{262_143, 9999, 10000}, {262_144, 10000, 10000}, {300_000, 10000, 10000},
	} {
		if got := LinearWeight.Weight(test.shares); got != test.linear {
			t.Errorf("linear: %d shares have the weight %d, want %d", test.shares, got, test.linear)
		}
		if got := QuadraticWeight.Weight(test.shares); got != test.quadratic {
			t.Errorf("quadratic: %d shares have the weight %d, want %d", test.shares, got, test.quadratic)
		}
	}
}

// TestFormulaRange: over the whole range, more shares have no smaller weight, no weight leaves the
// range of the kernel, and the kubelet's inverse of the linear formula (cpuWeightToCPUShares,
// pkg/kubelet/cm/cgroup_v2_manager_linux.go) comes back to at most the shares.
func TestFormulaRange(t *testing.T) {
	for _, f := range []WeightFormula{LinearWeight, QuadraticWeight} {
		last := uint64(1)
		for shares := uint64(2); shares <= 262_144; shares++ {
			weight := f.Weight(shares)
			if weight < last || weight > 10000 {
				t.Fatalf("%s: %d shares have the weight %d, one share less has %d", f.Name, shares, weight, last)
			}
			last = weight
			if back := (weight-1)*262142/9999 + 2; f.Name == LinearWeight.Name && (back > shares || shares-back > 27) {
				t.Fatalf("the weight %d of %d shares is one of %d shares", weight, shares, back)
			}
		}
		if last != 10000 {
			t.Errorf("%s: the most shares have the weight %d", f.Name, last)
		}
	}
}
