package evict

import "time"

// calm is a partition far from its thresholds in which nothing is to be done. Until that changes,
// and for statInterval at most, its usage alone is read.
type calm struct {
	settings Settings
	// limit, in bytes, has all that the usage leaves available: a limit that changes is found by the
	// next poll.
	limit uint64
	burst float64
	// used is the usage at the last look, in bytes with page cache, and at the time of that look.
	used uint64
	at   time.Time
}

// calmAfter returns what a poll leaves to the lookout, nil if the manager has to poll by itself.
func calmAfter(s Situation, d Decision, open []execution, burst float64) *calm {
	c := calm{
		settings: s.Effective(), limit: d.Available + s.Memory.Used(), burst: burst, used: s.Memory.Current, at: s.Now,
	}
	switch {
	case s.Config.Off, s.unlimited(): // nothing is guarded
		return nil
	case len(open) > 0, d.Crossed != "", s.Evidence.dying(s.Now):
		return nil
	case !far(c.settings, c.used, c.limit):
		return nil
	}
	return &c
}

// look returns the time until the next look at a usage, or false if the manager has to poll.
func (c *calm) look(now time.Time, used uint64) (time.Duration, bool) {
	growth := growth(c.used, used, now.Sub(c.at))
	c.used, c.at = used, now
	if !far(c.settings, used, c.limit) {
		return 0, false
	}
	distance := c.limit - used - max(c.settings.Hard, c.settings.Soft)
	return pollInterval(distance, c.settings.Hard, growth, c.burst), true
}

// look has the lookout read the usage of a calm partition.
func (w *watch) look(now time.Time) (time.Duration, bool) {
	used, err := w.meter.Current()
	if err != nil {
		return 0, false // the poll says why
	}
	d, calm := w.calm.look(now, used)
	// Of the looks around statInterval the nearest one gives way to a poll.
	return d, calm && now.Sub(w.statAt) < statInterval-d/2
}
