package evict

import "time"

// grown follows how fast a partition grows. Its speeds are in bytes per second.
type grown struct {
	// used is the usage at the last poll in bytes, at the time of that poll.
	used uint64
	at   time.Time
	// looked is the growth that the last look has seen since the one before, fastest the largest
	// growth of this run.
	looked, fastest float64
}

// poll returns the growth since the last poll, or between the last looks; 0 if there is none.
func (g *grown) poll(now time.Time, used uint64) float64 {
	speed := g.looked
	if !g.at.IsZero() {
		speed = max(speed, growth(g.used, used, now.Sub(g.at)))
	}
	g.used, g.at, g.looked, g.fastest = used, now, 0, max(g.fastest, speed)
	return speed
}

// burst returns the growth that may set in without warning: the measured one, or 0 for maxBurst,
// unless the partition has grown faster.
func (g *grown) burst(measured float64) float64 {
	if measured == 0 {
		return maxBurst
	}
	return max(measured, min(g.fastest, maxBurst))
}

// growth returns the growth from one number of bytes to another, per second; 0 if it has not grown.
func growth(from, to uint64, in time.Duration) float64 {
	if in <= 0 || to <= from {
		return 0
	}
	return float64(to-from) / in.Seconds()
}
