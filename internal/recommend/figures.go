package recommend

import (
	"math"
	"slices"
	"time"

	"nodepartition/pkg/slices/config"
)

const (
	mebi = 1 << 20
	gibi = 1 << 30
	// marginPart is the part of the peak that is added, as by the recommender of the Vertical Pod
	// Autoscaler (recommendation-margin-fraction, pkg/recommender/logic/recommender.go).
	marginPart = 0.15
	// cpuPercentile is its upper bound for CPU (recommendation-upper-bound-cpu-percentile).
	cpuPercentile = 0.95
	// oomRatio and oomBytes raise a usage at which memory was too low (its oom-bump-up-ratio and
	// oom-min-bump-up-bytes).
	oomRatio = 1.2
	oomBytes = 100 * mebi
	// reserveStep and cpuStep round reservations up.
	reserveStep = 64 * mebi
	cpuStep     = 10
	// mostNeed bounds the usage for which a limit is searched. No node has as much: a larger one is
	// in a forged history, and its sums would overflow.
	mostNeed = 1 << 53
	// leastLimit is the limit below which the configuration warns that a unit may be missing.
	leastLimit = 64 * mebi
)

// margin returns the part of a peak to add for a history of a length: 15 %, or 1 divided by the
// number of days if that is more, as the confidence multiplier of the Vertical Pod Autoscaler's
// upper bound (1 + 1/days), and at most 1.
func margin(covered time.Duration) float64 {
	days := covered.Hours() / 24
	if days <= 1 {
		return 1
	}
	return max(marginPart, 1/days)
}

// step returns the amount to whose multiple a limit is rounded up: 16Mi below 512Mi, 64Mi below
// 4Gi, and 256Mi above.
func step(bytes uint64) uint64 {
	switch {
	case bytes < 512*mebi:
		return 16 * mebi
	case bytes < 4*gibi:
		return 64 * mebi
	}
	return 256 * mebi
}

func roundUp(n, step uint64) uint64 { return (n + step - 1) / step * step }

// threshold returns the threshold of a limit: the default of the section, in whole mebibytes, and
// at least so many bytes.
func threshold(limit, least uint64) uint64 {
	return roundUp(config.DefaultThreshold(limit, least), mebi)
}

// limitFor returns the smallest rounded limit that leaves need below its threshold, and at least
// leastLimit.
func limitFor(need, leastThreshold uint64) uint64 {
	need = min(need, mostNeed)
	for limit := max(need, leastLimit); ; limit++ {
		limit = roundUp(limit, step(limit))
		if limit >= need+threshold(limit, leastThreshold) {
			return limit
		}
	}
}

// percentile returns the value below which a part of the values is (nearest rank), 0 for none.
func percentile(values []float64, part float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(int(math.Ceil(part*float64(len(sorted))))-1, 0)]
}
