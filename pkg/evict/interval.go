package evict

import "time"

// Intervals between two polls of the partition.
const (
	// minPollInterval bounds the cost near the threshold: six reads, some 20 µs on a server.
	minPollInterval = 2 * time.Millisecond
	// maxPollInterval applies far from the threshold. Polling more often does not catch a faster
	// growth: TestMargin finds the same thresholds with 100 ms.
	maxPollInterval = time.Second
	// minTogether is the shortest interval at which partitions are polled together.
	minTogether = maxPollInterval / 64
	// heldPollInterval applies while a threshold is crossed and no pod is evicted. The pods are read
	// as often at most (rest).
	heldPollInterval = 100 * time.Millisecond
	// drainPollInterval is the interval at which killed processes are checked.
	drainPollInterval = 5 * time.Millisecond
	// pollsToThreshold is the number of polls before the threshold is reached at the measured growth.
	pollsToThreshold = 2
)

// The growth in bytes per second that must not carry a partition from above its threshold to its
// limit between two polls, even after a time without growth.
const (
	// maxBurst is the growth on a server, where a thread touches 7 to 9 GiB/s of huge pages.
	maxBurst = 10 << 30
	// minBurst is the lower bound. An emulated machine is below it.
	minBurst = 1 << 30
	// hugePages is the assumed speed of huge pages relative to pages of 4 KiB, which may be all that
	// was measured.
	hugePages = 4
)

// pollInterval returns the time until the next poll. distance is the number of bytes left before a
// threshold is crossed, margin the number from there to the limit, and growth the bytes per second
// since the last poll. burst is the growth, in bytes per second, that may set in without warning.
func pollInterval(distance, margin uint64, growth, burst float64) time.Duration {
	seconds := (float64(distance) + float64(margin)) / burst
	if growth > 0 {
		seconds = min(seconds, float64(distance)/(pollsToThreshold*growth))
	}
	return time.Duration(min(max(seconds, minPollInterval.Seconds()), maxPollInterval.Seconds()) * float64(time.Second))
}

// together shortens a wait that begins now, by a clock that all partitions share, so that it ends
// at a multiple of maxPollInterval, or of a half, a quarter and so on of it, down to minTogether.
// The Go runtime wakes one thread for all partitions that are polled then. Four partitions took
// 1.25 times the CPU time of one so, and 3.5 times if each is polled at its own moments (Go 1.26).
// A shorter wait stays as it is.
func together(now, wait time.Duration) time.Duration {
	for grid := maxPollInterval; grid >= minTogether; grid /= 2 {
		if together := (now + wait).Truncate(grid) - now; grid <= wait && together >= minPollInterval {
			return together
		}
	}
	return wait
}

// nextPoll returns the time until the next poll, after a decision was acted on. open lists the
// evictions open at that time, growth is the growth of the partition per second since the last
// poll, and burst is described at Interval.
func nextPoll(s Situation, d Decision, open []execution, growth, burst float64) time.Duration {
	c := s.Effective()
	distance := d.Available - min(c.Hard, d.Available)
	if c.Soft > c.Hard && d.Available >= c.Soft {
		distance = d.Available - c.Soft
	}
	// Under pressure the threshold is already crossed, and the memory left below the limit counts.
	interval := pollInterval(distance, min(c.Hard, d.Available), growth, burst)
	// While nothing is done, a pod that grows is followed from when its growth is first measured.
	halfway := s.halfway(d.State.Base)
	toHalfway := pollInterval(halfway-min(s.Memory.Used(), halfway), 0, growth, 1)
	next := heldPollInterval
	//guard: the hard threshold is met in time while the soft one has nobody to evict
	if d.Crossed == Soft && c.Hard > 0 {
		next = max(interval, heldPollInterval/10) // it may last for days
	}
	switch {
	case s.Config.Off, s.unlimited():
		return statInterval
	case killing(open):
		return drainPollInterval
	case waiting(open), s.Evidence.dying(s.Now):
		return min(interval, heldPollInterval/10)
	case d.Held == HoldUnknown:
		return min(toHalfway, heldPollInterval/10)
	case d.Held == HoldUnreclaimable:
		return min(toHalfway, heldPollInterval/4, next)
	case d.NoCandidate, d.Held != "", s.Config.DryRun && d.Crossed != "":
		return min(heldPollInterval, next)
	}
	return interval
}
