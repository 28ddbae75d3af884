package evict

import "time"

// grown follows how fast a partition grows. Its speeds are in bytes per second.
type grown struct {
	// used is the usage at the last poll in bytes, at the time of that poll.
	used uint64
	at   time.Time
	// looked is the growth that the last look has seen since the one before.
	looked float64
}

// poll returns the growth since the last poll, or between the last looks; 0 if there is none.
func (g *grown) poll(now time.Time, used uint64) float64 {
	speed := g.looked
	if !g.at.IsZero() {
		speed = max(speed, growth(g.used, used, now.Sub(g.at)))
	}
	g.used, g.at, g.looked = used, now, 0
	return speed
}

// growth returns the growth from one number of bytes to another, per second; 0 if it has not grown.
func growth(from, to uint64, in time.Duration) float64 {
	if in <= 0 || to <= from {
		return 0
	}
	return float64(to-from) / in.Seconds()
}
