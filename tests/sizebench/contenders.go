package main

import (
	"math"
	"slices"
	"time"

	"node-partition.io/node-partition/internal/sizing"
)

// contender sizes a partition by the minutes before. rest is for the oracle alone.
type contender struct {
	name string
	size func(known partition, rest series) float64
}

// all lists the contenders, ours first.
var all = []contender{
	{"ours", ours},
	{"before", before},
	{"vpa-sum", func(p partition, _ series) float64 { return vpa(p.sum) }},
	{"vpa-each", vpaEach},
	{"autopilot", func(p partition, _ series) float64 { return autopilot(p.sum) }},
	{"n-sigma", nSigma},
	{"peak-1.15", func(p partition, _ series) float64 { return 1.15 * slices.Max(p.sum) }},
	{"by-hand", byHand},
	{"oracle", func(_ partition, rest series) float64 { return slices.Max(rest) }},
}

// unit is the limit of a container in bytes: a trace has shares of it.
const unit = 1 << 34

func ours(p partition, _ series) float64 {
	h := sizing.History{Length: time.Duration(len(p.sum)) * time.Minute, Members: len(p.members)}
	for hour := range slices.Chunk(p.sum, 60) {
		h.Hours = append(h.Hours, unit*slices.Max(hour))
	}
	for _, m := range p.members {
		h.Largest = max(h.Largest, unit*slices.Max(m))
	}
	return sizing.Of(h).Bytes / unit
}

// before is the rule that this project had before: the peak, and 15 % or one divided by the number
// of days, at most as much again.
func before(p partition, _ series) float64 {
	days := float64(len(p.sum)) / (24 * 60)
	return slices.Max(p.sum) * (1 + min(1, max(0.15, 1/days)))
}

// autopilot is the moving window of Autopilot (Rzadca and others, EuroSys 2020) for jobs with a low
// tolerance of kills: the 98th percentile of the peaks of five minutes, whose weight halves in 48
// hours, plus 15 %, and the largest of the recommendations of the last hour. For the least
// tolerance the paper takes the peak instead: that is peak-1.15.
func autopilot(sum series) float64 {
	const window, halfLife, percentile, margin = 5, 48 * 60 / 5, 0.98, 1.15
	var peaks []float64
	for five := range slices.Chunk(sum, window) {
		peaks = append(peaks, slices.Max(five))
	}
	best := 0.0
	for end := max(1, len(peaks)-60/window+1); end <= len(peaks); end++ {
		type weighted struct{ value, weight float64 }
		list, total := make([]weighted, end), 0.0
		for i, v := range peaks[:end] {
			list[i] = weighted{v, math.Exp2(float64(i-end) / halfLife)}
			total += list[i].weight
		}
		slices.SortFunc(list, func(a, b weighted) int {
			if a.value < b.value {
				return -1
			}
			return 1
		})
		for i, below := 0, 0.0; i < end; i++ {
			if below += list[i].weight; below >= percentile*total {
				best = max(best, list[i].value)
				break
			}
		}
	}
	return margin * best
}

// nSigma is the predictor of "Take it to the limit" (Bashir and others, EuroSys 2021): the mean and
// five standard deviations of the sum.
func nSigma(p partition, _ series) float64 {
	mean, squares := 0.0, 0.0
	for _, v := range p.sum {
		mean += v / float64(len(p.sum))
	}
	for _, v := range p.sum {
		squares += (v - mean) * (v - mean) / float64(len(p.sum))
	}
	return mean + 5*math.Sqrt(squares)
}

// byHand is twice the requests. A trace has no requests. It has the limits that the owners of the
// containers have set, and utilisation is the share of them: half of that is the request, so twice
// the requests is the sum of the limits that hands have set.
func byHand(p partition, _ series) float64 { return float64(len(p.members)) }
