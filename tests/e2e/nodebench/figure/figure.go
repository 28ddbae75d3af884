// Package figure holds the results of the benchmarks on a node, and the arithmetic behind them.
package figure

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Figure is one measured value.
type Figure struct {
	Name  string
	Value float64
	// Unit is empty for a ratio.
	Unit string
	// Low and High are the estimated bounds of the value in 95 of 100 such runs. Both are 0 if there
	// is no estimate.
	Low, High float64
	// Limit is the largest allowed value. It is nil if the value has none.
	Limit *float64
	// Note is for people.
	Note string
}

// Missed reports whether the value is above its limit.
func (f Figure) Missed() bool { return f.Limit != nil && f.Value > *f.Limit }

// Round holds times that were measured without a change of the surroundings between them: pairs,
// the first of A with the first of B.
type Round struct{ A, B []time.Duration }

// resamples is the number of simulated runs for estimating how the median varies.
const resamples = 4000

// Ratio returns the median of A/B over all pairs. To estimate how it varies it draws whole rounds,
// because the times within a round are alike.
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

// Number is a type with arithmetic.
type Number interface {
	~int64 | ~uint64 | ~float64
}

// Median returns the middle value, or the mean of the two in the middle. values must not be empty.
func Median[T Number](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
