package dispatch

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nodepartition/internal/fleet"
)

// TestTwoDispatchers: of two dispatchers of one roll, one acts. If it is cut off from the API
// server for longer than the lock lasts, the other one takes over. When it is back, it waits, and
// reports what has been done. The connections check that no other one writes.
func TestTwoDispatchers(t *testing.T) {
	for _, cut := range []time.Duration{30 * time.Second, 45 * time.Second, 5 * time.Minute, time.Hour} {
		t.Run(cut.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 6)
				first, line := w.dispatcher("first", fleet.Install, 1, "")
				second, _ := w.dispatcher("second", fleet.Install, 1, "")
				one := w.begin(t.Context(), first)
				<-time.After(time.Second)
				two := w.begin(t.Context(), second)
				<-time.After(3 * time.Minute)
				line.setCut(true)
				<-time.After(cut)
				line.setCut(false)
				w.want(<-one, fleet.CodeDone, allKept(6))
				w.want(<-two, fleet.CodeDone, allKept(6))
				w.wantKept(6)
				if w.most != 1 {
					t.Errorf("%d at once", w.most)
				}
				lost := w.saidHas("another dispatcher has taken the lock")
				if cut < 45*time.Second && lost || cut > fleet.LeaseFor+2*lookEvery && !lost {
					t.Errorf("the lock was lost: %t, after %s", lost, cut)
				}
			})
		})
	}
}

// TestSilentHolder: the lock of a process that died is taken when it was seen unchanged for its
// time, and not by the clock of whoever wrote it.
func TestSilentHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.otherLease("dead", "node-partition/ours", nil)
		start := time.Now()
		w.want(w.roll(fleet.Install, 1, ""), fleet.CodeDone, allKept(1))
		if took := time.Since(start); took < fleet.LeaseFor+jobTakes || took > fleet.LeaseFor+jobTakes+2*lookEvery {
			t.Errorf("%s; want the time of the lock and of the Job", took)
		}
	})
}

// TestAnotherRelease: a second release is refused, whether the first one rolls or not, and its
// removal has nothing to do.
func TestAnotherRelease(t *testing.T) {
	for _, holder := range []string{"", "other"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			w.otherLease(holder, "elsewhere/theirs", nil)
			report := w.roll(fleet.Install, 1, "")
			if report.Code != fleet.CodeRefused || !strings.Contains(report.Lines[0], "belong to the release elsewhere/theirs: uninstall it first") {
				t.Errorf("%+v", report)
			}
			w.want(w.roll(fleet.Uninstall, 1, ""), fleet.CodeDone, "nothing to do: the nodes of this cluster belong to the release elsewhere/theirs")
			if len(w.order) > 0 || w.lease().Annotations["node-partition.io/release"] != "elsewhere/theirs" {
				t.Errorf("Jobs for %v, Lease %+v", w.order, w.lease())
			}
		})
	}
}

// TestGivesWay: a roll gives way to the next revision of its release and to its removal, and add to
// a roll. What runs ends first.
func TestGivesWay(t *testing.T) {
	type claim struct {
		action   fleet.Action
		revision int
	}
	for name, test := range map[string]struct {
		first, second claim
		code          int
		done          string
	}{
		"a revision": {claim{fleet.Install, 1}, claim{fleet.Install, 2}, fleet.CodeFailed, allKept(3)},
		"a removal":  {claim{fleet.Install, 1}, claim{fleet.Uninstall, 1}, fleet.CodeFailed, "3 nodes have no file of it any more"},
		"a roll":     {claim{fleet.Add, 1}, claim{fleet.Install, 1}, fleet.CodeDone, allKept(3)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 3)
				first, _ := w.dispatcher("first", test.first.action, test.first.revision, "")
				second, _ := w.dispatcher("second", test.second.action, test.second.revision, "")
				w.otherLease("", "node-partition/ours", map[string]string{"node-partition.io/rolled": first.Claim.Roll})
				one := w.begin(t.Context(), first)
				<-time.After(jobTakes / 4)
				two := w.begin(t.Context(), second)
				report := <-one
				if report.Code != test.code || !strings.Contains(report.Lines[0], "1 node kept the partition, 2 not begun. No further Job was made: gives way to roll "+second.Claim.Roll) {
					t.Errorf("%+v", report)
				}
				w.want(<-two, fleet.CodeDone, test.done)
				if w.most != 1 {
					t.Errorf("%d at once", w.most)
				}
			})
		})
	}
}

// TestAddBeside: add does nothing while a roll goes on, and takes over from one that died.
func TestAddBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		o, _ := w.dispatcher("roll", fleet.Install, 1, "")
		done := w.begin(t.Context(), o)
		<-time.After(time.Second)
		w.want(w.roll(fleet.Add, 1, ""), fleet.CodeDone, "nothing to do: "+w.claim(fleet.Install, 1)+" goes on")
		w.want(<-done, fleet.CodeDone, allKept(2))
		w.node("worker-02", true)
		mark := w.lease().Annotations["node-partition.io/rolled"]
		w.otherLease("dead", "node-partition/ours", map[string]string{fleet.ActionLabel: "add", "node-partition.io/rolled": mark})
		w.want(w.roll(fleet.Add, 1, ""), fleet.CodeDone, allKept(1))
		w.wantKept(3)
	})
}

// TestLeaseRemoved: somebody who deletes the Lease takes the lock away. It is taken again.
func TestLeaseRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		o, _ := w.dispatcher("a", fleet.Install, 1, "")
		done := w.begin(t.Context(), o)
		<-time.After(jobTakes / 2)
		w.api.Drop(leasesPath, "node-partition-roll")
		w.want(<-done, fleet.CodeDone, allKept(3))
		w.wantKept(3)
	})
}

// TestLostAnswer: a Lease that was written by a request without an answer is known as the process's
// own.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		var lost atomic.Int32
		w.api.Before = func(request string) (bool, error) {
			if strings.Contains(request, leasesPath) && lost.Add(1) <= 3 {
				return true, errCut
			}
			return false, nil
		}
		start := time.Now()
		w.want(w.roll(fleet.Install, 1, ""), fleet.CodeDone, allKept(1))
		if took := time.Since(start); took > jobTakes+fleet.LeaseFor {
			t.Errorf("%s: it waited for itself", took)
		}
	})
}

// TestUncertain: a dispatcher that cannot write the Lease writes nothing else, although it could,
// until it has the lock again.
func TestUncertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 5)
		o, line := w.dispatcher("a", fleet.Install, 1, "pause: 0s")
		done := w.begin(t.Context(), o)
		<-time.After(jobTakes - time.Minute)
		line.setNoLease(true)
		<-time.After(5 * time.Minute)
		w.mu.Lock()
		made := len(w.order)
		w.mu.Unlock()
		if made != 1 {
			t.Errorf("%d Jobs were made", made)
		}
		line.setNoLease(false)
		w.want(<-done, fleet.CodeDone, allKept(5))
		w.wantKept(5)
	})
}

// TestAddStops: a failure that stops add keeps the next add from going on, until a roll has come to
// its end. An add that has given way to a roll, which then never begins, is continued by the next.
func TestAddStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.roll(fleet.Install, 1, "")
		w.node("worker-01", true)
		w.node("worker-02", true)
		o, _ := w.dispatcher("first", fleet.Add, 1, "")
		one := w.begin(t.Context(), o)
		<-time.After(jobTakes/4 + time.Second) // between two renewals: at one, the first try to ask can fail
		ctx, stop := context.WithCancel(t.Context())
		later, _ := w.dispatcher("second", fleet.Install, 1, "")
		two := w.begin(ctx, later)
		<-time.After(time.Second)
		stop()
		<-two
		if report := <-one; report.Code != fleet.CodeDone || !strings.Contains(report.Lines[0], "gives way") {
			t.Errorf("%+v", report)
		}
		w.ends["worker-02"] = "1 check: x"
		if report := w.roll(fleet.Add, 1, ""); report.Code != fleet.CodeFailed {
			t.Errorf("%+v", report)
		}
		w.node("worker-03", true)
		nothing := "nothing to do: the last roll of this release has not come to its end, or failures have stopped it: "
		w.want(w.roll(fleet.Add, 1, ""), fleet.CodeDone, nothing+w.claim(fleet.Add, 1))
		w.ends = map[string]string{}
		w.want(w.roll(fleet.Install, 2, ""), fleet.CodeDone, allKept(4))
	})
}
