package evict

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"time"
)

// executor carries out evictions: it stops containers, has evictions reported and reads the memory
// that is left, following execution. Only the goroutine in Run uses it.
type executor struct {
	*Options
	containers *containers
	reporter   *reporter
	watch      *watch
	warn       func(error)

	state State
	// last lists the closed evictions, the newest last.
	last []execution
	// dryRunUntil holds the time, by UID, until which the dry run of a pod is not repeated.
	dryRunUntil map[string]time.Time
	// unreclaimableUntil is the time at which forgetUnreclaimable reads memory again.
	unreclaimableUntil time.Time
	resumed            bool
	// evicting holds the UIDs of pods that are evicted for good, by an open eviction or one of the
	// last.
	evicting map[string]bool
	// saved and savedAt are what the state file has of a shortage, and since when.
	saved   begun
	savedAt time.Time
}

// begin takes the steps of an eviction that cannot wait.
func (x *executor) begin(ctx context.Context, s Situation, d Decision) {
	if s.Config.DryRun && x.isTold(d.Victim.UID, s.Now) {
		return
	}
	e := newEviction(s, d)
	if s.Config.DryRun {
		maps.DeleteFunc(x.dryRunUntil, func(_ string, until time.Time) bool { return !s.Now.Before(until) })
		x.dryRunUntil[e.UID] = s.Now.Add(retryInterval)
		x.Events.Evicting(e, 0)
		//guard: a dry run stops nothing
		x.keep(newExecution(e))
		x.save()
		return
	}
	x.state.Open = append(x.state.Open, newExecution(e).signalled(time.Now()))
	if e.Method == Evict && !d.Victim.Terminating { // whoever deletes a pod wants its successor
		x.state.Cooldown[e.Owner] = s.Now.Add(s.Config.Cooldown)
	}
	//guard: a pod is reported when its processes have ended
	x.stop(ctx, &x.state.Open[len(x.state.Open)-1], s.atLimit())
	x.Events.Evicting(e, time.Since(s.Now))
}

// stop saves the state, and stops the containers of an open eviction. atLimit is as for
// Options.Kill: then the limits that are lowered are saved before. Without that the next run could
// not give them back, and they are not lowered.
func (x *executor) stop(ctx context.Context, e *execution, atLimit bool) {
	for i := range e.Containers {
		if c := &e.Containers[i]; atLimit && e.Grace == 0 && c.MemoryMax == 0 {
			c.MemoryMax, _ = x.Cgroups.MemoryMax(c.Cgroup) // it has ended with an error
		}
	}
	//guard: the state is written before a pod is stopped
	saved := x.save()
	record := e.record()
	if record.Grace > 0 {
		//guard: the grace period that the runtime is told does not begin again with the program
		record.Grace = max(leastGrace, record.Grace-time.Since(e.signalledAt))
	}
	//guard: no limit is lowered that the next run could not give back
	x.containers.stop(ctx, record, atLimit && saved)
}

// isTold reports whether the dry run of a pod was reported a moment ago.
func (x *executor) isTold(uid string, now time.Time) bool { return now.Before(x.dryRunUntil[uid]) }

// resume takes the remaining steps of evictions that an earlier run left open, on its first call.
// If memory is no longer low, it gives up old evictions, because their containers may have been
// restarted, and those that have stopped no container. It gives up all evictions if the
// configuration no longer stops pods. read means that s has the memory of the partition.
func (x *executor) resume(ctx context.Context, s Situation, read bool) {
	if x.resumed {
		return
	}
	x.resumed = true
	before := len(x.state.Open)
	x.state.Open = slices.DeleteFunc(x.state.Open, func(e execution) bool {
		low := !read || s.left() < s.Effective().threshold(e.Threshold)
		switch {
		case e.phase == reclaimed:
			return false
		case s.Config.Off || s.Config.DryRun:
			e = e.givenUp()
			e.Problem = "given up after a restart of the monitor, which must stop no pod now"
		case low:
			return false
		//guard: an eviction that has stopped nothing is given up when memory is back
		case len(e.Containers) > 0 && !slices.ContainsFunc(e.Containers, x.containers.ended):
			//guard: an eviction that has stopped nothing begins no cooldown
			e = e.givenUp()
			delete(x.state.Cooldown, e.Owner)
			e.Problem = "given up by the next run of this program: none of its containers has ended, and " + x.name() + " has memory again"
		case time.Since(e.Time) <= reportDeadline:
			return false
		default:
			e = e.givenUp()
			e.Problem = "given up by the next run of this program: it is old, and " + x.name() + " has memory again"
		}
		x.close(e)
		return true
	})
	if len(x.state.Open) < before {
		x.save()
	}
	for i := range x.state.Open {
		e := &x.state.Open[i]
		*e = e.resumed(time.Now())
		x.Events.Resumed(e.record())
		if e.phase == reclaimed {
			x.report(ctx, e)
			continue
		}
		x.stop(ctx, e, s.atLimit())
	}
}

// progress takes the next steps of the open evictions, and reports whether one of them became
// reclaimed: its memory is back, or no longer awaited.
func (x *executor) progress(ctx context.Context, s Situation) (freed bool) {
	changed := x.takeAnswers()
	for i := range x.state.Open {
		if e := &x.state.Open[i]; e.phase != reclaimed {
			freed = x.advance(ctx, s, e) || freed
		}
	}
	x.state.Open = slices.DeleteFunc(x.state.Open, func(e execution) bool {
		if e.closed() {
			x.close(e)
		}
		return e.closed()
	})
	if changed || freed {
		maps.DeleteFunc(x.state.Cooldown, func(_ string, until time.Time) bool { return !time.Now().Before(until) })
		x.save()
	}
	return freed
}

// takeAnswers applies the results of reports, and reports whether there was one.
func (x *executor) takeAnswers() (changed bool) {
	for _, a := range x.reporter.takeAnswers() {
		e := x.find(a.uid, a.at)
		if e == nil {
			continue
		}
		*e, changed = e.afterReport(a), true
		if a.refused() {
			delete(x.state.Cooldown, e.Owner)
		}
	}
	return changed
}

// advance checks the processes of an eviction, takes its next steps, and reports whether it is
// reclaimed.
func (x *executor) advance(ctx context.Context, s Situation, e *execution) bool {
	running := false
	if e.phase != ended {
		var err error
		if running, err = x.containers.running(e.Eviction); err != nil {
			x.warn(err)
		}
		if running && e.endsRestarted() {
			x.containers.killAll(e.Eviction, x.containers.startedAgain(e.Eviction))
		}
	}
	next, do := e.afterProcesses(time.Now(), running)
	*e = next
	switch do {
	case abandon:
		x.Events.Failed(e.record(), StepTimeout, errors.New(e.Problem))
		x.state.Unreclaimable[e.UID] = x.memoryLeft(*e)
		if e.Grace > 0 {
			x.hurry(ctx, s, e, e.Threshold)
		}
		x.report(ctx, e)
	case readMemory:
		x.report(ctx, e)
		x.reclaim(ctx, s, e)
	}
	return e.phase == reclaimed
}

// reclaim reads the memory left of an eviction whose processes have ended, and takes the next
// steps.
func (x *executor) reclaim(ctx context.Context, s Situation, e *execution) {
	left := x.memoryLeft(*e)
	next, do := e.afterMemory(time.Now(), left, s.API)
	*e = next
	switch do {
	case readPartition:
		// Read again after the pod: the poll may have read the partition before the processes ended.
		x.checkLeft(e, x.watch.present())
	case escalate:
		x.state.Cooldown[e.Owner] = time.Now().Add(s.Config.Cooldown)
		x.save()
		x.Events.Evicting(e.record(), 0)
		x.report(ctx, e)
	case rememberUnreclaimable:
		x.state.Unreclaimable[e.UID] = left
		x.Events.Failed(e.record(), StepReclaim, errors.New(e.Problem))
	}
}

// memoryLeft returns the memory left of an eviction, in bytes, without the usage of containers that
// were started since.
func (x *executor) memoryLeft(e execution) uint64 {
	reading, err := x.Cgroups.Memory(e.Cgroup)
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	if err != nil {
		x.warn(err)
		//guard: memory of an ended pod that cannot be read is not back
		return e.left // unread memory counts as not yet back
	}
	left := reading.Used()
	for _, c := range x.containers.startedAgain(e.Eviction) {
		if reading, err := x.Cgroups.Memory(c.Cgroup); err == nil {
			left -= min(left, reading.Used())
		}
	}
	return left
}

// report starts the report of an eviction to the API server, unless it has begun.
func (x *executor) report(ctx context.Context, e *execution) {
	if e.report != unreported {
		return
	}
	e.report = reporting
	x.reporter.report(ctx, e.record(), e.late)
}

// hurry ends the grace period of an eviction, as one by the given threshold.
func (x *executor) hurry(ctx context.Context, s Situation, e *execution, threshold Threshold) {
	*e = e.hurried(threshold, time.Now())
	x.stop(ctx, e, s.atLimit())
}

// close ends an eviction. A container of it that runs on gets back the limit that condemn has
// lowered.
func (x *executor) close(e execution) {
	for _, c := range e.Containers {
		//guard: a container that runs on has no limit that was lowered for a kill
		if err := giveBack(x.Cgroups, c); err != nil && !errors.Is(err, fs.ErrNotExist) {
			x.Events.Failed(e.record(), StepStop, err)
		}
	}
	x.keep(e)
	x.Events.Evicted(e.record(), time.Since(e.Time))
}

// find returns the open eviction of a pod that was decided at the given time, or nil.
func (x *executor) find(uid string, at time.Time) *execution {
	for i := range x.state.Open {
		if e := &x.state.Open[i]; e.UID == uid && e.Time.Equal(at) {
			return e
		}
	}
	return nil
}
