package evict

import "time"

// calm is a partition far from its thresholds in which nothing is to be done. Until that changes,
// and for steadyInterval, its usage and its limit alone are read. A partition full of page cache is
// not calm: each poll of it reads memory.stat, which may take long and must not delay the others.
type calm struct {
	settings Settings
	// max is memory.max in bytes, and limit the limit that is guarded. If memory.max changes the
	// manager polls.
	max, limit uint64
	burst      float64
	// used is the usage at the last look, in bytes with page cache, and at the time of that look.
	used uint64
	at   time.Time
}

// calmAfter returns what a poll leaves to the lookout, and false if the manager has to poll by
// itself.
func calmAfter(s Situation, d Decision, open []execution, burst float64) (calm, bool) {
	c := calm{
		settings: s.Effective(), max: s.Memory.Max, limit: s.limit(), burst: burst, used: s.Memory.Current, at: s.Now,
	}
	switch {
	case s.Config.Off, s.unlimited(): // nothing is guarded
		return calm{}, false
	case len(open) > 0, d.Crossed != "", len(d.State.Stays) > 0: // something is awaited
		return calm{}, false
	case !far(c.settings, c.available()):
		return calm{}, false
	}
	return c, true
}

// available returns the memory left below the limit in bytes, if no page cache is reclaimed.
func (c *calm) available() uint64 { return c.limit - min(c.used, c.limit) }

// look returns the time until the next look, by the usage, or false if the manager has to poll.
// speed is the growth since the last look, in bytes per second.
func (c *calm) look(now time.Time, used uint64) (next time.Duration, speed float64, calm bool) {
	speed = growth(c.used, used, now.Sub(c.at))
	c.used, c.at = used, now
	if !far(c.settings, c.available()) {
		return 0, speed, false
	}
	distance := c.available() - c.settings.Nearest()
	return pollInterval(distance, c.settings.Hard, speed, c.burst), speed, true
}

// look has the lookout read the memory of a calm partition, and once in statInterval its limit:
// only an operator or a reload changes that.
func (w *watch) look(now time.Time) (time.Duration, bool) {
	if due(now, w.maxAt, statInterval, maxPollInterval) {
		reading, err := w.meter.Read(func(uint64, uint64) bool { return true })
		if err != nil || reading.Max != w.calm.max {
			return 0, false // the poll says why, or guards the other limit
		}
		w.maxAt = now
	}
	current, err := w.meter.Current()
	if err != nil {
		return 0, false
	}
	d, speed, calm := w.calm.look(now, current)
	w.grown.looked = speed
	bound := steadyInterval
	moved := max(current, w.statCurrent) - min(current, w.statCurrent)
	if moved > w.calm.limit/steadyShare || now.Sub(w.kills.limitAt) < killFollows {
		//guard: memory.stat is read again after a second if the usage has moved
		bound = statInterval
	}
	return d, calm && !due(now, w.statAt, bound, d)
}
