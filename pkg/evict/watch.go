package evict

import (
	"context"
	"sync"
	"time"

	"node-partition.io/node-partition/internal/cgroups"
)

const (
	// statInterval bounds the age of memory.stat far from the limit: the reported available memory
	// depends on it. In a quiet partition steadyInterval does.
	statInterval = time.Second
	// steadyInterval is that bound while the partition is calm and memory.current stays within one
	// steadyShare of the limit. Page cache that takes the place of other memory is seen then, and the
	// other way round.
	steadyInterval = 5 * time.Second
	steadyShare    = 128
)

// watch reads the memory of the partition, and waits until it may have changed. All methods but
// wake belong to the goroutine in Run.
type watch struct {
	*Options
	// condemned returns the number of processes that the kernel has killed for the program.
	condemned func() uint64
	meter     *cgroups.MemoryMeter
	// statAt is the time at which memory.stat was last read, and statCurrent memory.current then, in
	// bytes.
	statAt      time.Time
	statCurrent uint64
	grown       grown
	kills       kills
	evidence    evidence
	// earlier is the evidence of an earlier run of the program.
	earlier evidence
	// reported means that memory.events.local has changed since the last poll.
	reported bool
	// calm is what the last poll has left to the lookout, with the last look at it; nil if the manager
	// polls by itself.
	calm *Situation

	mu    sync.Mutex
	alarm *alarm
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
	alarm, err := newAlarm(w.Cgroups.Path(w.slice))
	if err != nil {
		meter.Close()
		return err
	}
	w.meter, w.kills, w.evidence, w.reported = meter, kills{}, w.earlier, true
	//guard: a partition that is made again has no evidence
	w.earlier = evidence{} // a partition that is made again begins without any
	w.statAt, w.grown = time.Time{}, grown{}
	w.mu.Lock()
	w.alarm = alarm
	w.mu.Unlock()
	return nil
}

func (w *watch) close() {
	if w.meter != nil {
		w.meter.Close()
		w.meter = nil
	}
	w.mu.Lock()
	alarm := w.alarm
	w.alarm = nil
	w.mu.Unlock()
	if alarm != nil {
		alarm.Close()
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
		if s.Config.Lowering {
			limit = min(s.Config.Limit, limit)
		}
		//guard: the second reading of a poll has memory.stat if the first has it
		full = !far(s.Config, limit-min(current, limit)) || executing || w.statDue(s.Now) || w.statAt.Equal(s.Now)
		return !full
	})
	if err != nil {
		return err
	}
	if full {
		//guard: a poll keeps the usage with which looks compare
		w.statAt, w.statCurrent = s.Now, reading.Current
	}
	s.Memory = reading
	return nil
}

// far reports whether so many bytes are available that no threshold is near. Where memory.current
// alone leaves that many it is enough to read.
func far(c Settings, available uint64) bool {
	return available > 2*c.Nearest()+c.MinimumReclaim
}

// statDue reports whether memory.stat is read again far from the threshold.
func (w *watch) statDue(now time.Time) bool { return due(now, w.statAt, statInterval, maxPollInterval) }

// due reports whether what was read at that time is read again, if it may be as old as bound. Polls
// and looks come at multiples of an interval, a little early or late: the nearest one reads.
func due(now, at time.Time, bound, interval time.Duration) bool {
	//guard: a poll that comes a little early reads memory.stat
	return now.Sub(at) >= bound-interval/2
}

// minimum returns the memory.min in bytes of a pod of the partition.
func (w *watch) minimum(cgroup string) uint64 {
	if w.meter == nil {
		return 0
	}
	return w.meter.Minimum(cgroup)
}

// used returns the present usage of the partition in bytes; 0 if it cannot be read, because the
// partition is gone.
func (w *watch) used() uint64 {
	if w.meter == nil {
		return 0
	}
	reading, err := w.meter.Read(func(uint64, uint64) bool { return false })
	if err != nil {
		return 0
	}
	return reading.Used()
}

// wait waits for d, or until the kernel reports a change, wake is called or ctx ends. While the
// partition is calm the lookout waits, until it is not any more.
func (w *watch) wait(ctx context.Context, d time.Duration) error {
	w.mu.Lock()
	alarm := w.alarm
	w.mu.Unlock()
	if alarm != nil {
		if w.calm != nil && w.Lookout != nil && w.Lookout.keep(ctx, alarm, d, w.look) {
			d = 0 // only a poll is left to be done
		}
		var err error
		w.reported, err = alarm.Wait(ctx, d)
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// wake ends wait, or the next one.
func (w *watch) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.alarm != nil {
		w.alarm.Wake()
	}
}
