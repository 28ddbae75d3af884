package faults

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/kubeapi"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
	"nodepartition/tests/fakeapi"
	"nodepartition/tests/locked"
)

// TestJudge: the condition by the last poll and the time since the last pressure.
func TestJudge(t *testing.T) {
	t.Parallel()
	read := evict.Report{Time: start}
	crossed, without := read, read
	crossed.Crossed = evict.Hard
	without.Crossed, without.NoCandidate = evict.Hard, true
	off := read
	off.Available, off.Hard = 1, 2
	for name, test := range map[string]struct {
		report  evict.Report
		pressed time.Duration // before now; 0 for never
		now     time.Duration // after start
		want    v1.ConditionStatus
		reason  string
	}{
		"enough":               {read, 0, time.Second, v1.ConditionFalse, reasonEnough},
		"crossed":              {crossed, time.Second, time.Second, v1.ConditionTrue, reasonLow},
		"low, eviction is off": {off, time.Second, time.Second, v1.ConditionTrue, reasonLow},
		"no candidate":         {without, time.Second, time.Second, v1.ConditionTrue, reasonNoCandidate},
		"back for a moment":    {read, calm - time.Second, time.Second, v1.ConditionTrue, reasonLow},
		"back for long":        {read, calm, time.Second, v1.ConditionFalse, reasonEnough},
		"not read":             {evict.Report{}, 0, time.Second, v1.ConditionUnknown, reasonUnread},
		"not read any more":    {read, 0, stale + time.Second, v1.ConditionUnknown, reasonUnread},
		"pressed and not read": {evict.Report{}, time.Second, time.Second, v1.ConditionTrue, reasonLow},
	} {
		now, pressed := start.Add(test.now), time.Time{}
		if test.pressed > 0 {
			pressed = now.Add(-test.pressed)
		}
		if got := judge(unitname.System, test.report, pressed, now); got.Status != test.want || got.Reason != test.reason || got.Type != kubeapi.Pressure || got.Message == "" {
			t.Errorf("%s: %+v; want %s, %s", name, got, test.want, test.reason)
		}
	}
}

// state is a report that changes.
type state struct {
	mu     sync.Mutex
	report evict.Report
	gone   bool // the partition
}

func (s *state) set(change func(*evict.Report)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.report)
}

func (s *state) read() (evict.Report, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.report != (evict.Report{}) {
		s.report.Time = time.Now()
	}
	return s.report, !s.gone
}

// TestCondition: it is written when it changes, and every five minutes.
func TestCondition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		writes, away := 0, false
		api := apiFunc(func(context.Context, func(context.Context, *kubeapi.Client, string) error) error {
			mu.Lock()
			defer mu.Unlock()
			writes++
			if away {
				return fmt.Errorf("%w: refused", kubeapi.ErrUnreachable)
			}
			return nil
		})
		var now state
		lines := &locked.Buffer{}
		c := NewCondition(api, unitname.System, lines.Logger(), func(bool) {})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = c.Run(ctx, now.read) // it ends with its context
		}()
		want := func(what string, after time.Duration, least, most int) {
			t.Helper()
			<-time.After(after)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if writes < least || writes > most {
				t.Errorf("%s: %d writes; want %d to %d", what, writes, least, most)
			}
			writes = 0
		}
		want("before the first poll", 10*time.Second, 0, 0)
		now.set(func(r *evict.Report) { r.Limit = 1 })
		want("the first", 2*time.Second, 1, 1)
		want("heartbeats", time.Hour, 11, 13)
		now.set(func(r *evict.Report) { r.Crossed = evict.Hard })
		want("crossed", 2*time.Second, 1, 1)
		now.set(func(r *evict.Report) { r.NoCandidate = true })
		want("another reason", 2*time.Second, 1, 1)
		seen, _ := now.read()
		now.set(func(r *evict.Report) { *r = evict.Report{} })
		want("some polls fail", 30*time.Second, 0, 0)
		now.set(func(r *evict.Report) { *r = seen })
		want("and the next one does not", 2*time.Second, 0, 0)
		now.set(func(r *evict.Report) { r.Crossed, r.NoCandidate = "", false })
		want("not calm yet, again for low memory", time.Minute, 1, 1)
		want("calm", 5*time.Minute, 1, 2)
		c.Pressed()
		want("for a moment", 2*time.Second, 1, 1)
		want("calm again", 5*time.Minute, 1, 2)
		now.set(func(r *evict.Report) { *r = evict.Report{} })
		want("polls fail", 50*time.Second, 0, 0)
		want("polls have failed for a minute", 15*time.Second, 1, 1)
		mu.Lock()
		away = true
		mu.Unlock()
		want("away", 20*time.Minute, 50, 125)
		if text := lines.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "the condition of the node could not be written") {
			t.Errorf("log %q; want one line", text)
		}
		c.Withdraw()
		c.Remove(ctx)
		want("removed", time.Hour, 1, 1)
		now.mu.Lock()
		now.gone = true
		now.mu.Unlock()
		c.Restore()
		want("the partition is gone", time.Hour, 0, 0)
		mu.Lock()
		away = false
		mu.Unlock()
		now.mu.Lock()
		now.gone = false
		now.mu.Unlock()
		now.set(func(r *evict.Report) { *r = seen })
		want("it came back", 2*time.Second, 1, 1)
		c.Withdraw()
		c.Restore()
		c.Remove(ctx) // it was late
		want("it came back before the removal", 2*time.Second, 1, 1)
		stop()
		<-ended
	})
}

// TestConditionInCluster: the condition on an API server, its transition, and a user without the
// right.
func TestConditionInCluster(t *testing.T) {
	t.Parallel()
	cluster := fakeapi.New(t, httptest.NewServer)
	lines, wrote := &locked.Buffer{}, make(chan bool, 100)
	var now state
	now.set(func(r *evict.Report) { r.Crossed = evict.Hard })
	c := NewCondition(of(t, cluster), unitname.System, lines.Logger(), func(written bool) { wrote <- written })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Run(ctx, now.read) // it ends with its context
	}()
	if !<-wrote {
		t.Fatalf("not written: %s", lines)
	}
	if got := cluster.Condition(kubeapi.Pressure); got == nil || got.Status != v1.ConditionTrue || got.Reason != reasonLow || got.LastTransitionTime.IsZero() ||
		got.LastHeartbeatTime.IsZero() {
		t.Errorf("%+v; want True", got)
	}
	cluster.Answer(fakeapi.PatchNode, http.StatusForbidden)
	now.set(func(r *evict.Report) { r.NoCandidate = true })
	if <-wrote {
		t.Error("written without the right")
	}
	stop()
	<-ended
	if text := lines.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "patch of nodes/status") {
		t.Errorf("log %q; want once what to grant", text)
	}
	if got := cluster.Condition(kubeapi.Pressure); got == nil || got.Status != v1.ConditionTrue {
		t.Errorf("%+v; want the last value after the end", got)
	}
	cluster.Answer(fakeapi.PatchNode, 0)
	c.Withdraw()
	c.Restore()
	c.Remove(t.Context())
	if got := cluster.Condition(kubeapi.Pressure); got == nil {
		t.Error("removed although the partition came back")
	}
	c.Withdraw()
	c.Remove(t.Context())
	if got := cluster.Condition(kubeapi.Pressure); got != nil {
		t.Errorf("%+v; want none after the partition is switched off", got)
	}
}
