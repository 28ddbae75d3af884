package evict

import (
	"cmp"
	"time"
)

// isCalm reports whether a partition is far from its thresholds and nothing is awaited in it after
// a decision. Until that changes, and for steadyInterval, the lookout reads its usage and its limit
// alone. A partition full of page cache is not calm: each poll of it reads memory.stat, which may
// take long and must not delay the others.
func isCalm(s Situation, d Decision, open []execution) bool {
	guarded, awaits := !s.Config.Off && !s.unlimited(), len(open) > 0 || d.Crossed != "" || len(d.State.Unreclaimable) > 0
	return guarded && !awaits && far(s.Effective(), s.leftOver(cacheStuck))
}

// look reads the usage and the limit of a calm partition for the lookout. It returns the time until
// the next look, or false if the manager has to poll.
func (w *watch) look(now time.Time) (time.Duration, bool) {
	reading, err := w.meter.Read(func(uint64, uint64) bool { return true })
	s := w.calm
	if err != nil || reading.Max != s.Memory.Max {
		return 0, false // the poll says why, or guards the other limit
	}
	speed := growth(s.Memory.Current, reading.Current, now.Sub(s.Now))
	s.Now, s.Memory, w.grown.looked = now, reading, speed
	c, left := s.Effective(), s.leftOver(cacheStuck)
	if !far(c, left) {
		return 0, false
	}
	next, bound := pollInterval(left-c.Nearest(), c.Hard, speed, cmp.Or(w.Burst, maxBurst)), steadyInterval
	moved := max(reading.Current, w.statCurrent) - min(reading.Current, w.statCurrent)
	if moved > s.limit()/steadyShare || now.Sub(w.kills.limitAt) < killFollows {
		//guard: memory.stat is read again after a second if the usage has moved
		bound = statInterval
	}
	return next, !due(now, w.statAt, bound, next)
}
