package sizing

import (
	"fmt"
	"math"
	"time"

	"node-partition.io/node-partition/internal/text"
)

const (
	mebi = 1 << 20
	gibi = 1 << 30
	// leastLimit is the limit below which the configuration warns that a unit may be missing.
	leastLimit = 64 * mebi
	// mostNeed bounds the need for which a limit is searched: sums of more would overflow.
	mostNeed = 1 << 53
	// mostLimit is the limit for a threshold that grows as fast as any limit.
	mostLimit = 1 << 62
	// leastMargin is the part of a limit, as a divisor, that the peak leaves above the threshold: with
	// less, NodePartitionLowMargin fires.
	leastMargin = 50
	// LeastLength is the shortest history that the rule has been judged on.
	LeastLength = 6 * time.Hour
)

// Advice is a memoryLimit, and what it stands on. Amounts are in bytes. Its JSON is for scripts:
// new versions add fields and do not change them.
type Advice struct {
	LimitBytes uint64 `json:"limitBytes"`
	// ThresholdBytes is the margin below which the partition evicts, within the limit.
	ThresholdBytes uint64 `json:"thresholdBytes"`
	// NeedBytes is what the limit leaves room for: the need by the rule, or the sum of the members'
	// requests if that is more, because no pod is to be evicted that uses no more than it requests.
	NeedBytes    uint64 `json:"needBytes"`
	RequestBytes uint64 `json:"requestBytes"`
	// Seconds is the time that was measured, and Members the largest number of members.
	Seconds int64 `json:"seconds"`
	Members int   `json:"members"`
	Need    Need  `json:"need"`
	// Leak is nil if nothing grows without returning.
	Leak *Leak `json:"leak,omitempty"`
}

// Advise returns the limit for a history. requests is the sum of the members' memory requests, and
// threshold returns the threshold of a limit; both are in bytes. It is zero without hours.
func Advise(h History, requests uint64, threshold func(limit uint64) uint64) Advice {
	n := Of(h)
	if n.Bytes <= 0 {
		return Advice{}
	}
	a := Advice{
		Need: n, RequestBytes: requests, Seconds: int64(h.Length / time.Second), Members: h.Members,
		NeedBytes: min(max(uint64(math.Ceil(n.Bytes)), requests), mostNeed), Leak: leakOf(h.Hours),
	}
	peak := min(uint64(n.Peak), mostNeed)
	holds := func(limit uint64) bool {
		a.LimitBytes, a.ThresholdBytes = limit, threshold(limit)
		return limit >= a.NeedBytes+a.ThresholdBytes && limit >= peak+a.ThresholdBytes+limit/leastMargin
	}
	//guard: a threshold of nearly all of the limit has no limit
	if !holds(mostLimit) {
		return a
	}
	for limit := max(a.NeedBytes, leastLimit); ; limit++ {
		if limit = roundUp(limit, step(limit)); holds(limit) {
			return a
		}
	}
}

// Length returns the time that was measured.
func (a *Advice) Length() time.Duration { return time.Duration(a.Seconds) * time.Second }

// Claim says what the limit promises, and what that stands on.
func (a *Advice) Claim() string {
	return fmt.Sprintf("%s: for %d members and %s, 1 of %d such nodes would exceed it in the %s after",
		text.Bytes(a.LimitBytes), a.Members, Text(a.Length()), Beyond, Text(a.Need.Ahead))
}

// Text returns a duration for people.
func Text(d time.Duration) string {
	if d < 48*time.Hour {
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%.1f days", d.Hours()/24)
}

// step returns the amount to whose multiple a limit is rounded up.
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
