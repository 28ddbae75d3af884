package evict

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// executionAt returns an execution that was signalled at noon.
func executionAt(e Eviction) execution { return newExecution(e).signalled(noon) }

func TestExecutionAfterProcesses(t *testing.T) {
	graceful := executionAt(Eviction{Verdict: Verdict{Method: Evict, Grace: 20 * time.Second}})
	atOnce := executionAt(Eviction{Verdict: Verdict{Method: Evict}})
	hasEnded, _ := atOnce.afterProcesses(noon, false)
	for name, test := range map[string]struct {
		before  execution
		after   time.Duration
		running bool
		phase   phase
		do      action
		problem bool
	}{
		"ended":                       {atOnce, time.Second, false, ended, readMemory, false},
		"ended late":                  {atOnce, time.Hour, false, ended, readMemory, false},
		"running":                     {atOnce, endTimeout, true, stopping, await, false},
		"running after the timeout":   {atOnce, endTimeout + 1, true, reclaimed, abandon, true},
		"running in the grace period": {graceful, graceful.Grace + endTimeout, true, stopping, await, false},
		"running after the grace period and the timeout": {graceful, graceful.Grace + endTimeout + 1, true, reclaimed, abandon, true},
		"ended before": {hasEnded, time.Hour, false, ended, readMemory, false},
	} {
		t.Run(name, func(t *testing.T) {
			now := noon.Add(test.after)
			got, do := test.before.afterProcesses(now, test.running)
			if got.phase != test.phase || do != test.do || (got.Problem != "") != test.problem {
				t.Errorf("phase %d, action %d, problem %q; want %d, %d, a problem: %t", got.phase, do, got.Problem, test.phase, test.do, test.problem)
			}
			if want := test.before.phase == stopping && test.phase == ended; want != got.freedAt.Equal(now) {
				t.Errorf("freed memory at %s, which is now: want %t", got.freedAt, want)
			}
		})
	}
}

func TestExecutionAfterMemory(t *testing.T) {
	const used = 640 * mi
	with := func(change func(*execution)) execution {
		x, _ := executionAt(Eviction{PodMeta: PodMeta{Namespace: "kube-system"}, Verdict: Verdict{Method: Evict}, Amounts: Amounts{UsedBytes: used}}).afterProcesses(noon, false)
		change(&x)
		return x
	}
	evicted := with(func(*execution) {})
	restarted := with(func(x *execution) { x.Method, x.report = Restart, unneeded })
	for name, test := range map[string]struct {
		before execution
		after  time.Duration
		left   uint64
		noAPI  bool
		phase  phase
		do     action
		method Method
		report reportState
	}{
		"less than half is left":          {evicted, 0, used/2 - 1, false, reclaimed, readPartition, Evict, unreported},
		"half is left":                    {evicted, reclaimTimeout, used / 2, false, ended, await, Evict, unreported},
		"nothing was used":                {with(func(x *execution) { x.UsedBytes = 0 }), 0, 5, false, reclaimed, readPartition, Evict, unreported},
		"memory is awaited":               {evicted, reclaimTimeout, used, false, ended, await, Evict, unreported},
		"memory stays":                    {evicted, reclaimTimeout + 1, used, false, reclaimed, rememberUnreclaimable, Evict, unreported},
		"memory comes back slowly":        {evicted, reclaimTimeout + 1, used - used/reclaimSteps, false, ended, await, Evict, unreported},
		"memory flutters":                 {evicted, reclaimTimeout + 1, used - used/reclaimSteps + 1, false, reclaimed, rememberUnreclaimable, Evict, unreported},
		"restarted, memory may come back": {restarted, drainTimeout, used, false, ended, await, Restart, unneeded},
		"restarted, memory stays":         {restarted, drainTimeout + 1, used, false, ended, escalate, Evict, unreported},
		"restarted without an API":        {restarted, drainTimeout + 1, used, true, reclaimed, rememberUnreclaimable, Restart, unneeded},
		"restarted after a refusal": {
			with(func(x *execution) { *x = x.afterReport(answer{err: ErrFinal}) }), drainTimeout + 1, used, false, reclaimed, rememberUnreclaimable, Restart, unneeded,
		},
		"restarted static pod": {
			with(func(x *execution) { x.Static, x.Method, x.report = true, Restart, unneeded }), drainTimeout + 1, used, false, reclaimed, rememberUnreclaimable, Restart, unneeded,
		},
		"restarted unknown pod": {
			with(func(x *execution) { x.Namespace, x.Method, x.report = "", Restart, unneeded }), drainTimeout + 1, used, false, reclaimed, rememberUnreclaimable, Restart, unneeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, do := test.before.afterMemory(noon.Add(test.after), test.left, !test.noAPI)
			if got.phase != test.phase || do != test.do || got.Method != test.method || got.report != test.report {
				t.Errorf("phase %d, action %d, method %q, report %d; want %d, %d, %q, %d",
					got.phase, do, got.Method, got.report, test.phase, test.do, test.method, test.report)
			}
			if (got.Problem != "") != (do == rememberUnreclaimable) {
				t.Errorf("the problem is %q", got.Problem)
			}
		})
	}
}

// TestExecutionFirstProblemKept has the memory stay of a pod that was refused before.
func TestExecutionFirstProblemKept(t *testing.T) {
	x, _ := executionAt(Eviction{Verdict: Verdict{Method: Restart}, Reported: true, Amounts: Amounts{UsedBytes: mi}, Problem: "first"}).afterProcesses(noon, false)
	if x, do := x.afterMemory(noon.Add(time.Minute), mi, true); do != rememberUnreclaimable || x.Problem != "first" {
		t.Errorf("action %d, problem %q", do, x.Problem)
	}
}

func TestExecutionAfterReport(t *testing.T) {
	busy := errors.New("busy")
	for name, test := range map[string]struct {
		answer  answer
		problem string
		want    reportState
		method  Method
		more    string
		refused bool
	}{
		"confirmed":             {answer{accepted: true}, "", confirmed, Evict, "", false},
		"confirmed and late":    {answer{accepted: true}, "late", confirmed, Evict, "late", false},
		"not confirmed":         {answer{accepted: true, err: busy}, "", reported, Evict, "busy", false},
		"may not be confirmed":  {answer{accepted: true, err: ErrFinal}, "late", reported, Evict, "late; not tried again", false},
		"not answered":          {answer{err: busy}, "late", unneeded, Restart, "late; busy", false},
		"refused":               {answer{err: fmt.Errorf("static: %w", ErrFinal)}, "", unneeded, Restart, "static: not tried again", true},
		"too late to be called": {answer{err: errLate}, "", unneeded, Restart, errLate.Error(), false},
	} {
		t.Run(name, func(t *testing.T) {
			x := executionAt(Eviction{Verdict: Verdict{Method: Evict}, Problem: test.problem})
			x.report = reporting
			got := x.afterReport(test.answer)
			if got.report != test.want || got.Method != test.method || got.Problem != test.more || test.answer.refused() != test.refused {
				t.Errorf("report %d, method %q, problem %q, refused %t; want %d, %q, %q, %t",
					got.report, got.Method, got.Problem, test.answer.refused(), test.want, test.method, test.more, test.refused)
			}
			if !got.record().Reported || got.closed() {
				t.Errorf("record is %+v, closed is %t: want it reported, and its memory awaited", got.record(), got.closed())
			}
			if got.phase = reclaimed; !got.closed() || !got.record().Gone {
				t.Errorf("with its memory back its record is %+v, closed is %t", got.record(), got.closed())
			}
		})
	}
}

// TestExecutionHurried hurries executions of all phases: the phase never moves back.
func TestExecutionHurried(t *testing.T) {
	for before, want := range map[phase]phase{decided: stopping, stopping: stopping, ended: ended, reclaimed: reclaimed} {
		x := execution{Eviction: Eviction{Verdict: Verdict{Grace: time.Minute, Threshold: Soft, Method: Evict}}, phase: before}
		if got := x.endsRestarted(); got != (before == stopping) {
			t.Errorf("phase %d: ends what is restarted: %t", before, got)
		}
		x = x.hurried(Hard, noon)
		if x.phase != want || x.Grace != 0 || x.Threshold != Hard || !x.signalledAt.Equal(noon) || !x.freedAt.Equal(noon) || x.endsRestarted() {
			t.Errorf("phase %d: hurried it is %+v", before, x)
		}
	}
}
