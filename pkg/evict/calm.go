package evict

import "time"

// calm is a partition far from its thresholds in which nothing is to be done. Until that changes,
// and for statInterval, its memory alone is read.
type calm struct {
	settings Settings
	// max is memory.max in bytes, and limit the limit that is guarded. If memory.max changes the
	// manager polls.
	max, limit uint64
	burst      float64
	// available is the memory left below the limit at the last look, in bytes, and at the time of that
	// look.
	available uint64
	at        time.Time
}

// calmAfter returns what a poll leaves to the lookout, nil if the manager has to poll by itself.
func calmAfter(s Situation, d Decision, open []execution, burst float64) *calm {
	c := calm{
		settings: s.Effective(), max: s.Memory.Max, limit: s.limit(), burst: burst, available: d.Available, at: s.Now,
	}
	switch {
	case s.Config.Off, s.unlimited(): // nothing is guarded
		return nil
	case len(open) > 0, d.Crossed != "", len(d.State.Stays) > 0: // something is awaited
		return nil
	case !far(c.settings, c.available):
		return nil
	}
	return &c
}

// look returns the time until the next look, by the memory that is available, or false if the
// manager has to poll. speed is the growth since the last look, in bytes per second.
func (c *calm) look(now time.Time, available uint64) (next time.Duration, speed float64, calm bool) {
	speed = growth(available, c.available, now.Sub(c.at))
	c.available, c.at = available, now
	if !far(c.settings, available) {
		return 0, speed, false
	}
	distance := available - max(c.settings.Hard, c.settings.Soft)
	return pollInterval(distance, c.settings.Hard, speed, c.burst), speed, true
}

// look has the lookout read the memory of a calm partition.
func (w *watch) look(now time.Time) (time.Duration, bool) {
	c := w.calm
	reading, err := w.meter.Read(func(current, _ uint64) bool { return far(c.settings, c.limit-min(current, c.limit)) })
	if err != nil || reading.Max != c.max {
		return 0, false // the poll says why, or guards the other limit
	}
	d, speed, calm := c.look(now, reading.Available(c.limit))
	w.grown.looked = speed
	// Of the looks around statInterval the nearest one gives way to a poll.
	return d, calm && now.Sub(w.statAt) < statInterval-d/2
}
