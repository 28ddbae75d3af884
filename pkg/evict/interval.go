package evict

import "time"

// How long the partition is left alone between two looks.
const (
	// shortest bounds the cost where the threshold is near: a look takes two reads, some 20 µs on a server.
	shortest = 2 * time.Millisecond
	// longest is the rest of what a partition far from its threshold costs.
	longest = time.Second
	// burst is the growth in bytes per second that must not carry a partition over its threshold unseen, whatever it did before.
	// A process touches new memory at 1 to 2 GiB/s: the kernel clears each page first.
	burst = 1 << 30
	// ahead is how many looks there are to be before the threshold, at the speed that was seen.
	ahead = 2
)

// Interval is the time until the next look: distance in bytes is how much may come before a threshold is crossed, growth
// what came per second since the last look. PSI and memory.events report when the kernel reclaims or kills, and a partition
// that is full of anonymous memory has nothing to reclaim: it goes from silence to the kill in one page.
func Interval(distance uint64, growth float64) time.Duration {
	speed := max(burst, ahead*growth)
	seconds := float64(distance) / speed
	return time.Duration(min(max(seconds, shortest.Seconds()), longest.Seconds()) * float64(time.Second))
}
