package recommend

import (
	"math"
	"slices"
)

// A few steps are not a leak: pods were added to the partition, or a service got more to do. Usage
// that grows in steps has a trend, and by Sen's slope may still grow at its end.
const (
	// maxSteps is the largest number of steps that do not count as a leak. A program that leaks once a
	// night has more in a week.
	maxSteps = 3
	// maxLevel is the number of bases of which a level is the median. Levels are shorter in a run of
	// less than three days: a twelfth of it, so that the steps cannot cover it.
	maxLevel = 6
	// stepsPart is the part of the growth that the steps have.
	stepsPart = 2.0 / 3
)

// inSteps reports whether the highest maxSteps steps of the bases make most of their growth. A step
// is the difference of the levels before and after it, so that a single base far off is none.
func inSteps(bases []point) bool {
	n := len(bases)
	level := min(max(n/12, 1), maxLevel)
	steps := make([]float64, n)
	for i := level; i+level <= n; i++ {
		steps[i] = median(bases[i:i+level]) - median(bases[i-level:i])
	}
	growth := median(bases[n-level:]) - median(bases[:level])
	sum := 0.0
	for range min(maxSteps, max(n/6, 1)) {
		highest := slices.Max(steps)
		at := slices.Index(steps, highest)
		sum += max(highest, 0)
		for i := max(at-level, 0); i <= min(at+level, n-1); i++ {
			steps[i] = math.Inf(-1) // it is a part of the same step
		}
	}
	return sum >= stepsPart*growth
}

// median returns the median of the values, the upper one of two.
func median(list []point) float64 {
	values := make([]float64, 0, len(list))
	for _, p := range list {
		values = append(values, p.bytes)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
