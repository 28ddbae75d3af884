package sizing

import (
	"math"
	"slices"
	"time"
)

const (
	// Beyond is how rarely a partition may exceed its need: 1 of so many, in the time after the
	// history.
	Beyond = 200
	// quantile is the value that a normal variable exceeds in half of 1 of Beyond cases. The other
	// half is left for what the rule knows nothing of, such as a member that grows beyond twice its
	// size.
	quantile = 2.807
	// mostGrowth bounds what the members may grow by, as a multiple of the largest.
	mostGrowth = 2
	// weekly is the part by which a partition changes as a whole in a week: programs are upgraded, and
	// the cluster gets more objects.
	weekly = 0.01
	// day is the shortest cycle of a cluster's work. What a history has not seen of it is ahead.
	day = 24 * time.Hour
	// lately is the part of a history that is shorter than a day, as a divisor, that tells the level:
	// what was before is the start. A longer one has whole cycles, and all of it counts.
	lately = 3
)

// History is what a partition has used.
type History struct {
	// Hours has the largest usage of each hour, in bytes, the oldest first. The last may be a part of
	// an hour. An hour in which nothing was measured is left out.
	Hours []float64
	// Length is the time that was measured.
	Length time.Duration
	// Members is the largest number of members.
	Members int
	// Largest is the most that a single member has used, in bytes. 0 means that it is not known.
	Largest float64
}

// Need is how much a partition needs, and what that stands on. Amounts are in bytes.
type Need struct {
	Bytes float64 `json:"bytes"`
	// Peak is the largest usage, and Level that of the hours that tell the level: of a history of less
	// than a day those of its last third. Spread is how far one of those hours is from the next, as a
	// standard deviation.
	Peak   float64 `json:"peak"`
	Level  float64 `json:"level"`
	Spread float64 `json:"spread"`
	// Member is the size of the largest member. If the members were not measured, it is twice the
	// mean.
	Member float64 `json:"member"`
	// Growth is what the members may grow by, as a standard deviation, and Ahead the time after the
	// history for which that holds, in nanoseconds in JSON.
	Growth float64       `json:"growth"`
	Ahead  time.Duration `json:"ahead"`
	// Drift is what all members together may grow by in that time, as a standard deviation.
	Drift float64 `json:"drift"`
	// Looks is the number of hours that are as good as independent.
	Looks float64 `json:"looks"`
}

// Of returns the need of a partition:
//
//	growth = largest member / sqrt(12) x ahead/length / sqrt(looks)
//	drift  = level / 100 x ahead / week
//	need   = max(peak, level + 2.81 x sqrt(growth^2 + spread^2 + drift^2))
//
// It is zero without hours.
func Of(h History) Need {
	if len(h.Hours) == 0 || h.Length <= 0 {
		return Need{}
	}
	level := h.Hours
	if h.Length < day {
		level = level[len(level)-(len(level)+lately-1)/lately:]
	}
	n := Need{
		Peak: slices.Max(h.Hours), Level: slices.Max(level), Spread: spread(level),
		Ahead: max(h.Length, day-h.Length), Looks: looks(h.Hours),
	}
	n.Member = member(h, n.Peak)
	n.Growth = n.Member / math.Sqrt(12) * float64(n.Ahead) / float64(h.Length) / math.Sqrt(n.Looks)
	n.Growth = min(n.Growth, mostGrowth*n.Member/quantile) // of a history of minutes
	n.Drift = weekly * n.Level * float64(n.Ahead) / float64(7*day)
	n.Bytes = max(n.Peak, n.Level+quantile*math.Hypot(math.Hypot(n.Growth, n.Spread), n.Drift))
	return n
}

// member returns the size of the largest member. It is not more than all have used together.
func member(h History, peak float64) float64 {
	if h.Largest > 0 {
		return min(h.Largest, peak)
	}
	return peak * min(1, 2/float64(max(h.Members, 1)))
}

// looks returns how many independent values have the same information as the hours, which depend on
// each other: n / (1 + 2 x the sum of the autocorrelations). The sum ends before the first that is
// not positive, from where on the estimates are noise. It is at least one.
func looks(hours []float64) float64 {
	n := len(hours)
	mean := 0.0
	for _, v := range hours {
		mean += v / float64(n)
	}
	products := func(lag int) (sum float64) {
		for i := lag; i < n; i++ {
			sum += (hours[i] - mean) * (hours[i-lag] - mean)
		}
		return sum
	}
	variance := products(0)
	if variance <= 1e-9*mean*mean*float64(n) { // all are equal but for rounding
		return float64(n)
	}
	sum := 0.0
	for lag := 1; lag < n; lag++ {
		covariance := products(lag)
		if covariance <= 0 {
			break
		}
		sum += covariance / variance
	}
	return max(1, float64(n)/(1+2*sum))
}

// spread returns the standard deviation of hours by the differences of neighbours, as von Neumann
// estimates it: what rises and falls slowly, and a step, do not count, because the level has them.
func spread(hours []float64) float64 {
	if len(hours) < 2 {
		return 0
	}
	sum := 0.0
	for i := 1; i < len(hours); i++ {
		sum += (hours[i] - hours[i-1]) * (hours[i] - hours[i-1])
	}
	return math.Sqrt(sum / 2 / float64(len(hours)-1))
}
