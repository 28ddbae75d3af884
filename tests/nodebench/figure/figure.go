// Package figure is what the benchmarks on a node report, and the arithmetic behind it.
package figure

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Figure is something that was measured.
type Figure struct {
	Name  string
	Value float64
	// Unit is empty for a ratio.
	Unit string
	// Low and High are where the value would be in 95 of 100 such runs, as far as this one tells; both are 0 where it does not.
	Low, High float64
	// Limit is what the value may be at most, nil for one that is only to be read.
	Limit *float64
	// Note is for people.
	Note string
}

// Missed tells whether the value is above its limit.
func (f Figure) Missed() bool { return f.Limit != nil && f.Value > *f.Limit }

// Round is what was measured without a change of the surroundings between: pairs, the first of A with the first of B.
type Round struct{ A, B []time.Duration }

// resamples is how many runs are made up to see how the median varies.
const resamples = 4000

// Ratio is the median of A/B over all pairs. Rounds are drawn as a whole to see how it varies, because what is measured
// within one is alike.
func Ratio(name string, limit *float64, rounds []Round) Figure {
	ratios := make([][]float64, len(rounds))
	for i, r := range rounds {
		for j := range r.A {
			ratios[i] = append(ratios[i], float64(r.A[j])/float64(r.B[j]))
		}
	}
	random := rand.New(rand.NewPCG(1, 2)) // the same bounds for the same times
	medians := make([]float64, resamples)
	drawn := make([][]float64, len(ratios))
	for i := range medians {
		for j := range drawn {
			drawn[j] = ratios[random.IntN(len(ratios))]
		}
		medians[i] = Median(slices.Concat(drawn...))
	}
	slices.Sort(medians)
	return Figure{
		Name: name, Limit: limit, Value: Median(slices.Concat(ratios...)),
		Low: medians[resamples*25/1000], High: medians[resamples*975/1000],
	}
}

// Number is something to do arithmetic with.
type Number interface {
	~int64 | ~uint64 | ~float64
}

// Median returns the one in the middle, the larger of the two where there are two. There must be one.
func Median[T Number](values []T) T {
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// Millis is the median of times in milliseconds.
func Millis(name string, times []time.Duration) Figure {
	return Figure{Name: name, Value: Median(times).Seconds() * 1000, Unit: "ms"}
}
