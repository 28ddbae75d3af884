package evict

import "time"

// How long the partition is left alone between two looks.
const (
	// minPollInterval bounds the cost where the threshold is near: a look takes two reads, some 20
	// µs on a server.
	minPollInterval = 2 * time.Millisecond
	// maxPollInterval is what a partition far from its threshold costs: a look takes some 10 µs, a
	// ten-thousandth of a CPU.
	maxPollInterval = 100 * time.Millisecond
	// drainPollInterval is the interval of looks at processes that were killed.
	drainPollInterval = 5 * time.Millisecond
	// pollsToThreshold is how many looks there are to be before the threshold, at the speed that
	// was seen.
	pollsToThreshold = 2
)

// The growth in bytes per second that must not carry a partition from above its threshold to its
// limit unseen, whatever it did before.
const (
	// MaxBurst is that of a server. A thread touches new memory at 2.5 GiB/s in pages of 4 KiB, and
	// at 7 to 9 in huge ones, which is what Debian and RHEL give by default (measured on two cores
	// of an AMD EPYC): the kernel clears each page first.
	MaxBurst = 10 << 30
	// minBurst is the least that is counted with, where a machine was busy or emulated when it was
	// measured.
	minBurst = 1 << 30
	// threads is how many times as fast several threads, or huge pages, are taken to be as the one
	// that was measured.
	threads = 4
)

// Interval is the time until the next look: distance in bytes is how much may come before a
// threshold is crossed, margin how much more before the limit is reached, and growth what came per
// second since the last look. PSI and memory.events report when the kernel reclaims or kills, and a
// partition that is full of anonymous memory has nothing to reclaim: it goes from silence to the
// kill in one page. burst is how fast that may come out of silence, in bytes per second.
func Interval(distance, margin uint64, growth, burst float64) time.Duration {
	seconds := (float64(distance) + float64(margin)) / burst
	if growth > 0 {
		seconds = min(seconds, float64(distance)/(pollsToThreshold*growth))
	}
	return time.Duration(min(max(seconds, minPollInterval.Seconds()), maxPollInterval.Seconds()) * float64(time.Second))
}

// nextLook returns the time until the next look, after a decision was acted on. open are the
// evictions that are under way then, growth is what the partition has grown by per second since the
// last look, and burst as of Interval.
func nextLook(s Snapshot, d Decision, open []execution, growth, burst float64) time.Duration {
	c := s.Effective()
	distance := d.Available - min(c.Hard, d.Available)
	if c.Soft > c.Hard && d.Available >= c.Soft {
		distance = d.Available - c.Soft
	}
	// In pressure the threshold is behind us, and what is left counts.
	interval := Interval(distance, min(c.Hard, d.Available), growth, burst)
	switch {
	case s.Config.Off, s.unlimited():
		return statInterval
	case killing(open):
		return drainPollInterval
	case waiting(open), d.Held == HoldUnknown, d.Held == HoldDoubt:
		return min(interval, maxPollInterval/10)
	case d.Held == HoldStays:
		// That may last for days, and each look is at all pods: what grows beside it is followed
		// from when it is seen to grow.
		return Interval(d.Available-min(d.State.Floor, d.Available), 0, growth, 1)
	case d.Nobody, d.Held != "", s.Config.DryRun && d.Crossed != "":
		return maxPollInterval
	}
	return interval
}
