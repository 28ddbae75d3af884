package recommend

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// The rule for a leak: the base of a series has a trend (Mann-Kendall), grows by an amount that
// matters (Sen's slope), still grows at the end, and has not returned. The base is the smallest
// value of each hour: peaks come back to it, and a leak raises it. Trend test and slope follow
// Garg, van Moorsel, Vaidyanathan and Trivedi, "A methodology for detection and estimation of
// software aging" (ISSRE 1998). The test alone finds too many (Machida, Andrzejak, Matias and
// Vicente, "On the effectiveness of Mann-Kendall test for detection of software aging", WoSAR
// 2013), so the other four conditions are added.
const (
	// block is the time of which a base is the smallest value.
	block = time.Hour
	// minBlocks is the number of hours from which on a trend can be found. With six values that all
	// grow the probability of chance is 1 in 720.
	minBlocks = 6
	// significant is the value of the standard normal distribution for a probability of 1 %,
	// one-sided.
	significant = 2.326
	// minGrowth in bytes and minGrowthPart of the base are the growth that matters.
	minGrowth     = 32 << 20
	minGrowthPart = 0.2
	// lastPart is the end of a run in which it still has to grow, at stillGrows of the slope of the
	// whole. A cache that fills and a program that starts stop growing.
	lastPart, stillGrows = 3, 0.5
	// notReturned is the part of the growth that is still there at the end.
	notReturned = 0.75
)

// point is a value of a series, in bytes.
type point struct {
	at    time.Time
	bytes float64
	// life changes when the process was started again: a run ends there.
	life string
}

// trend is the growth of the base in one run.
type trend struct {
	// from and to are the ends of the run, and base its first base in bytes.
	from, to time.Time
	base     float64
	// perHour is Sen's slope in bytes.
	perHour float64
	bases   []point
}

// trends returns the leaks of a series, which is sorted by time. A run is the life of a process. A
// gap in the history does not end it: the process has grown in the gap, too.
func trends(series []point) []trend {
	var list []trend
	for begin := 0; begin < len(series); {
		end := begin + 1
		for end < len(series) && series[end].life == series[begin].life {
			end++
		}
		if t, ok := leaks(series[begin:end]); ok {
			list = append(list, t)
		}
		begin = end
	}
	return list
}

// leaks applies the rule to one run.
func leaks(run []point) (trend, bool) {
	bases := lows(run)
	n := len(bases)
	if n < minBlocks || mannKendall(bases) < significant {
		return trend{}, false
	}
	t := trend{from: run[0].at, to: run[len(run)-1].at, base: bases[0].bytes, perHour: senSlope(bases), bases: bases}
	growth := t.perHour * bases[n-1].at.Sub(bases[0].at).Hours()
	last := bases[n-max(n/lastPart, 3):]
	switch {
	case growth < minGrowth, growth < minGrowthPart*t.base:
	case senSlope(last) < stillGrows*t.perHour:
	case bases[n-1].bytes < t.base+notReturned*growth:
	case inSteps(bases):
	default:
		return t, true
	}
	return trend{}, false
}

// lows returns the smallest value of each block, at its time.
func lows(run []point) []point {
	var list []point
	for _, p := range run {
		n := int(p.at.Sub(run[0].at) / block)
		if len(list) > 0 && n == int(list[len(list)-1].at.Sub(run[0].at)/block) {
			if p.bytes < list[len(list)-1].bytes {
				list[len(list)-1] = p
			}
			continue
		}
		list = append(list, p)
	}
	return list
}

// mannKendall returns the test statistic Z of a trend upwards. It counts the pairs that grow less
// those that fall, and divides by the standard deviation of that count without a trend; equal
// values lower the deviation (Gilbert, Statistical Methods for Environmental Pollution Monitoring,
// 16.4).
func mannKendall(series []point) float64 {
	n := len(series)
	score := 0
	for i := range series {
		for j := i + 1; j < n; j++ {
			score += cmp.Compare(series[j].bytes, series[i].bytes)
		}
	}
	ties := map[float64]int{}
	for _, p := range series {
		ties[p.bytes]++
	}
	spread := func(n int) float64 { return float64(n * (n - 1) * (2*n + 5)) }
	variance := spread(n)
	for _, equal := range ties {
		variance -= spread(equal)
	}
	if score <= 0 || variance <= 0 {
		return 0
	}
	return float64(score-1) / math.Sqrt(variance/18)
}

// senSlope returns the median of the slopes of all pairs, in bytes per hour: single values far off
// do not change it (Sen, 1968).
func senSlope(series []point) float64 {
	var slopes []float64
	for i := range series {
		for j := i + 1; j < len(series); j++ {
			if hours := series[j].at.Sub(series[i].at).Hours(); hours > 0 {
				slopes = append(slopes, (series[j].bytes-series[i].bytes)/hours)
			}
		}
	}
	if len(slopes) == 0 {
		return 0
	}
	slices.Sort(slopes)
	middle := len(slopes) / 2
	if len(slopes)%2 == 0 {
		return (slopes[middle-1] + slopes[middle]) / 2
	}
	return slopes[middle]
}

// excess returns the bytes that a leak has added at a time: the line through its bases, above the
// first. Peaks on top of the line are none of it.
func (t trend) excess(at time.Time) float64 {
	if at.Before(t.from) || at.After(t.to) {
		return 0
	}
	i, _ := slices.BinarySearchFunc(t.bases, at, func(p point, at time.Time) int { return p.at.Compare(at) })
	var bytes float64
	switch last := len(t.bases) - 1; {
	case i == 0:
		bytes = t.base
	case i > last:
		bytes = t.bases[last].bytes + t.perHour*at.Sub(t.bases[last].at).Hours()
	default:
		a, b := t.bases[i-1], t.bases[i]
		bytes = a.bytes + (b.bytes-a.bytes)*float64(at.Sub(a.at))/float64(b.at.Sub(a.at))
	}
	return max(bytes-t.base, 0)
}
