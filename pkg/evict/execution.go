package evict

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// execution is an open eviction: the Eviction that is written to the state file, and how far it has
// been carried out. Its phase follows the pod's processes and its memory:
//
//	            1             2          3
//	decided ──────► stopping ───► ended ───► reclaimed
//	                    │                        ▲
//	                    └────────────────────────┘
//	                                4
//
//	1  its containers are signalled to end
//	2  none of their processes is left
//	3  the pod's memory is back, or stays (Problem)
//	4  processes outlast the grace period and endTimeout (Problem)
//
// Its report follows the answers of the API server and the kubelet:
//
//	            5              6
//	unreported ───► reporting ───► confirmed
//	    ▲               │    └───► reported
//	  9 │               │ 8    7
//	    └── unneeded ◄──┘
//
//	5  the phase has left stopping: by 2 or by 4
//	6  the API server has accepted it, and the kubelet has ended the pod
//	7  the API server has accepted it, and the kubelet does not follow in time (Problem)
//	8  refused, or too late (Problem); the Evict becomes a Restart
//	9  the memory of a Restart stays after 2; it becomes an Evict
//
// A Restart is unneeded from the start. Reporting does not begin before the processes have ended:
// the controller, the scheduler and the volumes take a failed pod for one whose containers do not
// run (mergePodStatus, pkg/kubelet/status/status_manager.go). The next pod may be evicted when the
// phase is reclaimed, whatever the report. An execution is closed when it is reclaimed and its
// report has ended. It is then kept in History.Last.
//
// The state file has Gone, which is true for reclaimed, and Reported, which is true if the report
// has ended. The next run of the program begins with decided or reclaimed, and with unreported if
// the report has not ended. It takes the missing steps again: each of them can be taken twice.
//
// Methods that return an execution are pure. They take readings and the time, and return the next
// state; the executor acts.
type execution struct {
	Eviction
	phase  phase
	report reportState

	// signalledAt is the time at which its containers were last signalled to end.
	signalledAt time.Time
	// left is the part of UsedBytes that was left at the last reading. freedAt is the time of the last
	// of three events: it shrank, the containers were signalled to end, or they ended.
	left    uint64
	freedAt time.Time
	// late means that an earlier run of the program left it so long ago that it is not reported any
	// more.
	late bool
}

// phase tracks the end of the pod's processes and the return of its memory.
type phase int

// The phases, in order.
const (
	// decided: it is in the state file, and this run of the program has stopped no container of it.
	decided phase = iota
	// stopping: its containers are killed, or have a grace period left.
	stopping
	// ended: no process of its containers is left, and its memory is awaited.
	ended
	// reclaimed: its memory is no longer awaited. It is back, or stays, or the processes have not
	// ended in time.
	reclaimed
)

// reportState tracks the report to the API server.
type reportState int

// The states of the report.
const (
	unreported reportState = iota
	// reporting: a goroutine of the reporter calls the API server.
	reporting
	// reported: the API server has accepted it, and the kubelet was not seen to follow.
	reported
	// confirmed: the kubelet follows.
	confirmed
	// unneeded: the containers are only restarted.
	unneeded
)

// action is the step that the executor takes after a transition.
type action int

const (
	// await: wait for the next poll.
	await action = iota
	// readMemory: the processes have ended. Report it, and read the memory of the pod.
	readMemory
	// abandon: the processes do not end.
	abandon
	// readPartition: the memory of the pod is back. Check whether the partition's memory is back, too.
	readPartition
	// escalate: the restart of its containers becomes an eviction. Announce and report it.
	escalate
	// rememberUnreclaimable: the memory of the pod stays.
	rememberUnreclaimable
)

// newExecution returns the execution of an eviction that was just decided, or that an earlier run
// of the program wrote to the state file.
func newExecution(e Eviction) execution {
	x := execution{Eviction: e, left: e.UsedBytes}
	if e.Gone {
		x.phase = reclaimed
	}
	switch {
	case e.Reported && e.Method == Evict:
		x.report = confirmed
	case e.Reported:
		x.report = unneeded
	}
	return x
}

// record returns the Eviction for the state file and for callers outside.
func (e execution) record() Eviction {
	record := e.Eviction
	record.Containers = slices.Clone(e.Containers) // condemn writes to them
	record.Gone, record.Reported = e.phase == reclaimed, e.reportEnded()
	return record
}

func (e execution) reportEnded() bool { return e.report >= reported }

// closed reports whether no step is left.
func (e execution) closed() bool { return e.phase == reclaimed && e.reportEnded() }

// signalled returns e after its containers were signalled to end.
func (e execution) signalled(now time.Time) execution {
	e.phase = max(e.phase, stopping)
	e.signalledAt, e.freedAt = now, now
	return e
}

// resumed returns e after a new run of the program has found it open. Its containers were signalled
// before, so that what is left of a grace period goes on, for leastGrace at least.
func (e execution) resumed(now time.Time) execution {
	e.late = e.isLate(now)
	begin := now
	if left := e.Grace - max(now.Sub(e.Time), 0); e.Grace > 0 {
		//guard: a grace period does not begin again with the program
		begin = now.Add(max(left, leastGrace) - e.Grace)
	}
	return e.signalled(begin)
}

// isLate reports whether it is too late to report the eviction: an earlier run may have done so.
func (e execution) isLate(now time.Time) bool {
	//guard: an eviction that had a grace period is reported after it
	return now.Sub(e.Time) > max(e.Grace, e.OutsideGrace)+reportDeadline
}

// hurried returns e without its grace period, as an eviction by the given threshold. Its containers
// are signalled again.
func (e execution) hurried(threshold Threshold, now time.Time) execution {
	e.Grace, e.Threshold = 0, threshold
	return e.signalled(now)
}

// endsRestarted reports whether to kill containers that the kubelet starts in place of those that
// have ended. The pod is reported when the last of its containers has used up its grace period, and
// until then the kubelet restarts the others.
func (e execution) endsRestarted() bool {
	return e.phase == stopping && e.Method == Evict && e.Grace > 0
}

// afterProcesses returns the next state and action, given whether a process of its containers runs.
func (e execution) afterProcesses(now time.Time, running bool) (execution, action) {
	switch {
	case e.phase == ended:
		return e, readMemory
	case !running:
		e.phase, e.freedAt = ended, now
		return e, readMemory
	case now.Sub(e.signalledAt)-e.Grace > endTimeout:
		e.phase = reclaimed
		e.Problem = fmt.Sprintf(
			"its processes have not ended %s after they were to; no other pod is evicted for the memory that they hold",
			endTimeout,
		)
		return e, abandon
	}
	return e, await
}

// afterMemory returns the next state and action, given the bytes left of the memory of a pod whose
// processes have ended. Files in memory are freed when the kubelet unmounts them, after the pod has
// ended for good, and not at all while the pod stays. api means that the API server can be asked to
// evict the pod.
func (e execution) afterMemory(now time.Time, left uint64, api bool) (execution, action) {
	if left+e.UsedBytes/reclaimSteps <= e.left {
		e.left, e.freedAt = left, now
	}
	if e.UsedBytes == 0 || left < e.UsedBytes/2 {
		e.phase = reclaimed
		return e, readPartition
	}
	switch waited := now.Sub(e.freedAt); {
	case e.Method == Restart && waited > drainTimeout && api && e.escalates():
		// Its processes are restarted beside the memory that they left behind. The whole pod has to be
		// evicted, even in the cooldown of its owner.
		e.Method, e.report = Evict, unreported
		return e, escalate
	case e.Method == Restart && waited > drainTimeout, waited > reclaimTimeout:
		e.phase = reclaimed
		if e.Problem == "" {
			e.Problem = fmt.Sprintf(
				"%d of %d bytes are still there after its processes have ended: files in memory (an emptyDir with the medium Memory, "+
					"/dev/shm) stay as long as the pod; delete it",
				left,
				e.UsedBytes,
			)
		}
		return e, rememberUnreclaimable
	}
	return e, await
}

// escalates reports whether a pod whose containers were restarted can be evicted instead. An
// unknown pod has no namespace and no real name: the API server would answer that it is gone, which
// counts as evicted.
func (e execution) escalates() bool {
	return !e.Static && !e.DryRun && e.Problem == "" && e.Namespace != ""
}

// answer is the result of a report.
type answer struct {
	// uid and at identify the execution.
	uid string
	at  time.Time
	// accepted means that the API server has evicted the pod. err is then about the confirmation.
	accepted bool
	err      error
}

// refused reports whether the pod was certainly not evicted. A server that does not answer may have
// evicted it.
func (a answer) refused() bool { return !a.accepted && errors.Is(a.err, ErrFinal) }

// afterReport returns the next state, given the result of its report.
func (e execution) afterReport(a answer) execution {
	switch {
	case a.err == nil:
		e.report = confirmed
		return e
	case a.accepted:
		e.report = reported
	default:
		e.report, e.Method = unneeded, Restart // the kubelet restarts its containers
	}
	e.Problem = strings.TrimPrefix(e.Problem+"; "+a.err.Error(), "; ")
	return e
}

// givenUp returns e as an eviction that is not carried out any further. If its report has not ended
// it counts as a restart: the kubelet restarts the containers.
func (e execution) givenUp() execution {
	if !e.reportEnded() {
		e.report, e.Method = unneeded, Restart
	}
	return e
}

// waiting reports whether memory of an execution is awaited.
func waiting(open []execution) bool {
	return slices.ContainsFunc(open, func(e execution) bool { return e.phase != reclaimed })
}

// ending reports whether memory of an execution whose grace period is over is awaited.
func ending(open []execution, now time.Time) bool {
	return slices.ContainsFunc(
		open,
		func(e execution) bool {
			return e.phase == ended || e.phase != reclaimed && now.Sub(e.signalledAt) >= e.Grace
		},
	)
}

// killing reports whether memory of an execution without a grace period is awaited.
func killing(open []execution) bool {
	return slices.ContainsFunc(open, func(e execution) bool { return e.phase != reclaimed && e.Grace == 0 })
}

// freeing reports whether an execution has freed memory within freeingWindow, or was signalled or
// ended within it and could not free memory yet.
func freeing(open []execution, now time.Time) bool {
	return slices.ContainsFunc(
		open,
		func(e execution) bool { return e.phase != reclaimed && now.Sub(e.freedAt) < freeingWindow },
	)
}

const (
	// endTimeout is the time in which containers have to end after their grace period.
	endTimeout = 10 * time.Second
	// drainTimeout is the time in which memory has to come back after that if the pod stays.
	drainTimeout = 2 * time.Second
	// reclaimTimeout is that time if the pod ends. The kubelet unmounts its volumes, and waits as long
	// for that itself (podCleanupTimeout, pkg/kubelet/eviction/eviction_manager.go).
	reclaimTimeout = 30 * time.Second
	// freeingWindow is the time for which a pod counts as freeing memory after it last did. A process
	// of 2 GiB ends within half of it.
	freeingWindow = 100 * time.Millisecond
	// reclaimSteps is the number of parts in which the memory of an eviction comes back at most. Usage
	// that flutters, or falls by a page at a time, does not mean that memory is coming back, and would
	// delay all other evictions for ever.
	reclaimSteps = 64
)
