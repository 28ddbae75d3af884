package evict

import (
	"context"
	"time"

	"node-partition.io/node-partition/internal/cgroups"
)

// statInterval is the time between two readings of memory.stat far from the limit: the reported
// available memory depends on it.
const statInterval = time.Second

// statAge is the age from which memory.stat is read again far from the limit. Polls come at
// multiples of an interval, and one may come a little before the end of statInterval.
const statAge = statInterval * 3 / 4

// watch reads the memory of the partition, and waits until it may have changed. All methods but
// wake belong to the goroutine in Run.
type watch struct {
	*Options
	// condemned returns the number of processes that the kernel has killed for the program.
	condemned func() uint64
	meter     *cgroups.MemoryMeter
	// statAt is the time at which memory.stat was last read.
	statAt time.Time
	// used is the usage at the last poll in bytes, at the time polledAt.
	used     uint64
	polledAt time.Time
	kills    kills
	evidence evidence
	// earlier is the evidence of an earlier run of the program.
	earlier evidence
	// woken holds a call of wake.
	woken chan struct{}
}

// open opens the files of the partition, unless they are open.
func (w *watch) open() error {
	if w.meter != nil {
		return nil
	}
	meter, err := w.Cgroups.MemoryMeter(w.slice)
	if err != nil {
		return err
	}
	w.meter, w.kills, w.evidence = meter, kills{}, w.earlier
	//guard: a partition that is made again has no evidence
	w.earlier = evidence{} // a partition that is made again begins without any
	w.statAt, w.polledAt = time.Time{}, time.Time{}
	return nil
}

func (w *watch) close() {
	if w.meter != nil {
		w.meter.Close()
		w.meter = nil
	}
}

// read reads the memory of the partition into s. Far from the threshold it leaves out memory.stat,
// except once in statInterval and while an eviction is open. A poll that has read it reads it
// again, because its first reading is replaced.
func (w *watch) read(s *Situation, executing bool) error {
	if err := w.open(); err != nil {
		return err
	}
	full := true
	reading, err := w.meter.Read(func(current, limit uint64) bool {
		limit = s.guarded(limit)
		//guard: the second reading of a poll has memory.stat if the first has it
		full = !far(s.Config, limit-min(current, limit)) || executing || w.statDue(s.Now) || w.statAt.Equal(s.Now)
		return !full
	})
	if err != nil {
		return err
	}
	if full {
		w.statAt = s.Now
	}
	s.Memory = reading
	return nil
}

// far reports whether so many bytes are available that no threshold is near. Where memory.current
// alone leaves that many it is enough to read.
func far(c Settings, available uint64) bool {
	return available > c.near()
}

// near returns the available memory in bytes at which a threshold is near.
func (c Settings) near() uint64 { return 2*c.Nearest() + c.MinimumReclaim }

// statDue reports whether memory.stat is read again far from the threshold.
func (w *watch) statDue(now time.Time) bool {
	//guard: a poll that comes a little early reads memory.stat
	return now.Sub(w.statAt) >= statAge
}

// grown returns the growth since the last poll in bytes per second, 0 if there is none.
func (w *watch) grown(now time.Time, used uint64) (speed float64) {
	if took := now.Sub(w.polledAt); !w.polledAt.IsZero() && took > 0 {
		speed = float64(used-min(used, w.used)) / took.Seconds()
	}
	w.used, w.polledAt = used, now
	return speed
}

// present returns the present usage of the partition in bytes; 0 if it cannot be read, because the
// partition is gone.
func (w *watch) present() uint64 {
	if w.meter == nil {
		return 0
	}
	reading, err := w.meter.Read(func(uint64, uint64) bool { return false })
	if err != nil {
		return 0
	}
	return reading.Used()
}

// wait waits for d at most, until wake is called or ctx ends. It waits by a timer of the Go
// runtime, and not for a report of the kernel in memory.events.local: a partition that is full of
// anonymous memory has nothing to reclaim, and the kernel kills in it without a previous report.
func (w *watch) wait(ctx context.Context, d time.Duration) error {
	// A step of the wall clock changes one wait, and lengthens none.
	timer := time.NewTimer(together(time.Duration(time.Now().UnixNano()), d))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-w.woken:
	case <-timer.C:
	}
	return nil
}

// wake ends wait, or the next one.
func (w *watch) wake() {
	select {
	case w.woken <- struct{}{}:
	default: // it is woken already
	}
}
