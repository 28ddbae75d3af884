package dispatch

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/fleet"
	"nodepartition/internal/fleet/cluster"
	"nodepartition/internal/nodelabel"
)

// allKept returns the report of a roll in which nothing went wrong.
func allKept(nodes int) string {
	if nodes == 1 {
		return "1 node kept the partition"
	}
	return fmt.Sprintf("%d nodes kept the partition", nodes)
}

// TestRun: each node has its labels after one Job, the Lease says that the roll has come to its
// end, and a second run makes nothing.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 7)
		w.node("worker-03", false)
		w.want(w.roll(fleet.Install, 1, "nodes: 2"), fleet.CodeDone,
			"6 nodes kept the partition, 1 skipped", "skipped: worker-03: not-ready: KubeletNotReady: no network")
		if !slices.IsSorted(w.order) || len(w.order) != 6 || w.most != 2 || w.labels("worker-03") != "" {
			t.Errorf("%v, %d at once", w.order, w.most)
		}
		lease := w.lease()
		id := fleet.RollID("v2", "s2", fleet.Install, "node-partition/ours", 1)
		if *lease.Spec.HolderIdentity != "" || lease.Annotations["node-partition.io/rolled"] != id || lease.Annotations["node-partition.io/release"] != "node-partition/ours" {
			t.Errorf("Lease %+v", lease)
		}
		for _, name := range w.api.Names(jobsPath) {
			var j batchv1.Job
			w.api.Get(jobsPath, name, &j)
			if len(j.OwnerReferences) != 1 || j.OwnerReferences[0].Name != configMap || j.OwnerReferences[0].UID == "" {
				t.Errorf("Job %s is owned by %+v", name, j.OwnerReferences)
			}
		}
		w.node("worker-03", true)
		w.want(w.roll(fleet.Install, 1, "nodes: 2"), fleet.CodeDone, allKept(7))
		w.wantKept(7)
	})
}

// TestRunStops: a failure stops the roll, its text is in the report, and the next revision tries
// again and removes the Jobs of this one.
func TestRunStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 5)
		w.ends["worker-01"] = "1 check: the slice is not active."
		w.want(w.roll(fleet.Install, 1, ""), fleet.CodeFailed,
			"1 node kept the partition, 1 failed, 3 not begun. No further Job was made: 1 node failed, and maxFailures is 0",
			"failed, and is as before: worker-01: check: the slice is not active.")
		if got := w.labels("worker-01"); got != "failed check" {
			t.Errorf("labels %s", got)
		}
		w.want(w.roll(fleet.Add, 1, ""), fleet.CodeDone,
			"nothing to do: the last roll of this release has not come to its end, or failures have stopped it: "+w.claim(fleet.Install, 1))
		w.ends = map[string]string{}
		w.want(w.roll(fleet.Install, 2, "nodes: 5"), fleet.CodeDone, allKept(5))
		if names := w.api.Names(jobsPath); len(names) != 5 {
			t.Errorf("Jobs %v; want the Jobs of one roll", names)
		}
		w.want(w.roll(fleet.Install, 1, ""), fleet.CodeRefused, "refused, and no Job was made: Lease "+cluster.LeaseName+": "+w.claim(fleet.Install, 2)+
			" is later than this one. If the release was deleted meanwhile, delete the Lease")
	})
}

// claim returns the text of a claim.
func (w *world) claim(action fleet.Action, revision int) string {
	o, _ := w.dispatcher("", action, revision, "")
	return o.Claim.String()
}

// TestRunLate: a Job whose image cannot be had ends at its deadline, as a failure with the cause. The
// numbers are said meanwhile.
func TestRunLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.ends["worker-00"] = "hangs"
		w.want(w.roll(fleet.Install, 1, ""), fleet.CodeFailed,
			"0 nodes kept the partition, 1 failed. No further Job was made: 1 node failed, and maxFailures is 0",
			"failed: worker-00: timeout: its Job has not ended within 20m0s: container preflight waits: ImagePullBackOff: no such image")
		if got := w.labels("worker-00"); got != "failed timeout" {
			t.Errorf("labels %s", got)
		}
		said := 0
		for _, line := range w.said {
			if line == "waits for Jobs: 0 of 1 ended, 1 run, 0 failed of 0 allowed, 0 skipped" {
				said++
			}
		}
		if said < 3 || said > 4 { // the last time is the deadline, too
			t.Errorf("said the numbers %d times in %s; want them every %s", said, jobDeadline, sayProgress)
		}
	})
}

// TestRunMany: five thousand nodes in one run, with two requests for each.
func TestRunMany(t *testing.T) {
	const many = 5000
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, many)
		o, _ := w.dispatcher("a", fleet.Install, 1, "nodes: 10%\npause: 0s")
		start := time.Now()
		w.want(Run(t.Context(), o), fleet.CodeDone, allKept(many))
		requests := o.Client.Requests()
		all := 0
		for _, n := range requests {
			all += n
		}
		t.Logf("%d nodes in %s of the cluster's time, %d requests: %v", many, time.Since(start), all, requests)
		if requests["create jobs"] != many || requests["patch nodes"] != many || requests["list nodes"] != many/500 || all > 2*many+200 {
			t.Errorf("requests %v; want two for each node", requests)
		}
		if w.most != many/10 {
			t.Errorf("%d at once", w.most)
		}
	})
	t.Logf("%s of this machine's time", time.Since(began))
}

// TestOutage: an API server that is away, for longer than the lock lasts, ends no dispatcher. When
// it is back, the roll continues with what has happened meanwhile.
func TestOutage(t *testing.T) {
	for _, away := range []time.Duration{45 * time.Second, 5 * time.Minute} {
		for _, hangs := range []bool{false, true} {
			for _, after := range []time.Duration{0, 30 * time.Second, 3 * time.Minute, 11 * time.Minute} {
				t.Run(fmt.Sprintf("%s, hangs %t, after %s", away, hangs, after), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { outageOf(t, away, hangs, after) })
				})
			}
		}
	}
}

func outageOf(t *testing.T, away time.Duration, hangs bool, after time.Duration) {
	t.Helper()
	w := newWorld(t, 5)
	o, _ := w.dispatcher("a", fleet.Install, 1, "")
	if after == 0 {
		w.api.Leave(hangs)
	}
	done := w.begin(t.Context(), o)
	<-time.After(after)
	w.api.Leave(hangs)
	<-time.After(away)
	select {
	case report := <-done:
		t.Fatalf("it has ended: %+v", report)
	default:
	}
	w.api.Return()
	w.want(<-done, fleet.CodeDone, allKept(5))
	w.wantKept(5)
	if w.most != 1 || !w.saidHas("waits for the API server") || !w.saidHas("answers again after") {
		t.Errorf("%d at once, said %q", w.most, w.said)
	}
}

// TestOutageEnd: the end of a roll is written when the API server is back.
func TestOutageEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		o, _ := w.dispatcher("a", fleet.Install, 1, "")
		w.api.Before = func(request string) (bool, error) {
			if strings.HasPrefix(request, patchNode) {
				// The label is written, and the answer is the last one for a while.
				time.AfterFunc(0, func() { w.api.Leave(false) })
				time.AfterFunc(5*time.Minute, w.api.Return)
			}
			return false, nil
		}
		w.want(Run(t.Context(), o), fleet.CodeDone, allKept(1))
		if w.lease().Annotations["node-partition.io/rolled"] == "" {
			t.Errorf("Lease %+v", w.lease())
		}
	})
}

// TestForgotten: watches that cannot go on begin with a list, which shows what has gone.
func TestForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4)
		o, _ := w.dispatcher("a", fleet.Install, 1, "")
		done := w.begin(t.Context(), o)
		<-time.After(jobTakes / 2)
		w.api.Leave(false)
		w.api.Drop(nodesPath, "worker-03")
		<-time.After(jobTakes)
		w.api.Return()
		w.api.Forget()
		w.want(<-done, fleet.CodeDone, allKept(3))
		w.wantKept(3)
		if requests := o.Client.Requests(); requests["list jobs"] < 2 {
			t.Errorf("%v; want a second list", requests)
		}
	})
}

// TestKilled: a dispatcher that is killed before or after any of its writes is continued by the
// next one. Each node has one Job, the share is kept, and the report is the same.
func TestKilled(t *testing.T) {
	for n, killed := 1, true; killed; n++ {
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				killed = killedAt(t, n, after)
			})
		}
		if n > 100 {
			t.Fatal("a dispatcher writes more than a hundred times")
		}
	}
}

// killedAt kills a dispatcher at its n-th write, and reports whether it had one.
func killedAt(t *testing.T, n int, after bool) (killed bool) {
	t.Helper()
	w := newWorld(t, 5)
	w.ends["worker-02"] = "3 cgroup-v1: it runs cgroup v1."
	const text = "nodes: 2\nmaxFailures: 1\npause: 10s"
	o, l := w.dispatcher("first", fleet.Install, 1, text)
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	var writes atomic.Int32
	w.api.Before = func(string) (bool, error) {
		if writes.Add(1) == int32(n) {
			killed = true
			l.setCut(true) // nothing of it arrives any more, not even the release of the lock
			kill()
			return after, errCut
		}
		return false, nil
	}
	report := <-w.begin(ctx, o)
	want := []string{"4 nodes kept the partition, 1 failed", "refused, and nothing was written: worker-02: cgroup-v1: it runs cgroup v1."}
	if !killed {
		w.want(report, fleet.CodeFailed, want...)
		return false
	}
	o, _ = w.dispatcher("second", fleet.Install, 1, text)
	w.want(Run(t.Context(), o), fleet.CodeFailed, want...)
	for i := range 5 {
		name := workerName(i)
		label := "v2 s2 kept"
		if i == 2 {
			label = "refused cgroup-v1"
		}
		if w.made[name] != 1 || w.labels(name) != label {
			t.Errorf("killed at write %d, after it %t: %s has %q after %d Jobs", n, after, name, w.labels(name), w.made[name])
		}
	}
	if w.most > 2 {
		t.Errorf("killed at write %d, after it %t: %d at once", n, after, w.most)
	}
	return true
}

// TestInterrupted: a dispatcher that is told to end gives the lock up at once.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		o, _ := w.dispatcher("first", fleet.Install, 1, "")
		ctx, stop := context.WithCancel(t.Context())
		done := w.begin(ctx, o)
		<-time.After(jobTakes / 2)
		stop()
		w.want(<-done, fleet.CodeInterrupted, "interrupted: Jobs that run go on. Started again, the dispatcher continues from them")
		if holder := *w.lease().Spec.HolderIdentity; holder != "" {
			t.Errorf("the lock is held by %q", holder)
		}
		start := time.Now()
		w.want(w.roll(fleet.Install, 1, ""), fleet.CodeDone, allKept(3))
		if took := time.Since(start); took > 3*jobTakes+2*time.Minute {
			t.Errorf("%s", took)
		}
		w.wantKept(3)
	})
}

// TestRefused: what the API server does not allow ends the dispatcher with the right that it lacks,
// and gives the lock up.
func TestRefused(t *testing.T) {
	for request, right := range map[string]string{
		"GET " + configPath + "/" + configMap: "get configmaps", "GET " + nodesPath: "list nodes", "GET " + jobsPath: "list jobs", "GET " + podsPath: "list pods",
		"POST " + jobsPath: "create jobs", "POST " + leasesPath: "create leases", "GET " + leasesPath + "/" + cluster.LeaseName: "get leases",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 2)
			w.api.Refuse = func(line string, _ *http.Request) int {
				if line == request {
					return http.StatusForbidden
				}
				return 0
			}
			report := w.roll(fleet.Install, 1, "")
			if report.Code != fleet.CodeRefused || len(report.Lines) != 1 || !strings.Contains(report.Lines[0], "not allowed") ||
				!strings.Contains(report.Lines[0], "needs the right to "+right) || len(w.order) > 0 {
				t.Errorf("%s: %+v", request, report)
			}
			if lease := w.lease(); lease != nil && *lease.Spec.HolderIdentity != "" {
				t.Errorf("%s: the lock is held by %s", request, *lease.Spec.HolderIdentity)
			}
		})
	}
	for request, right := range map[string]string{
		"PATCH " + nodesPath + "/worker-00": "patch nodes", "WATCH " + nodesPath: "watch nodes", "WATCH " + jobsPath: "watch jobs", "WATCH " + podsPath: "watch pods",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 2)
			w.api.Refuse = func(line string, _ *http.Request) int {
				if line == request && len(w.api.Names(jobsPath)) > 0 {
					return http.StatusForbidden
				}
				return 0
			}
			o, _ := w.dispatcher("a", fleet.Install, 1, "")
			done := w.begin(t.Context(), o)
			<-time.After(time.Minute)
			w.api.Leave(false) // so that watches begin again
			<-time.After(time.Second)
			w.api.Return()
			report := <-done
			if report.Code != fleet.CodeFailed || !strings.Contains(report.Lines[0], "stopped before the end: ") || !strings.Contains(report.Lines[0], "needs the right to "+right) {
				t.Errorf("%s: %+v", request, report)
			}
		})
	}
}

// TestUnknownUser: a token that has expired is renewed some time. No dispatcher ends for it.
func TestUnknownUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		until := time.Now().Add(10 * time.Minute)
		w.api.Refuse = func(string, *http.Request) int {
			if time.Now().Before(until) {
				return http.StatusUnauthorized
			}
			return 0
		}
		w.want(w.roll(fleet.Install, 1, ""), fleet.CodeDone, allKept(2))
	})
}

// TestNodeGone: a node that leaves between the end of its Job and its labels has not failed.
func TestNodeGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		for _, code := range []int{http.StatusNotFound, http.StatusConflict} {
			w.api.Refuse = func(line string, _ *http.Request) int {
				if line == patchNode+"worker-00" {
					return code
				}
				return 0
			}
			w.want(w.roll(fleet.Install, code, ""), fleet.CodeDone, "1 node kept the partition, 1 left the cluster", "left the cluster: worker-00")
		}
	})
}

// TestForeignJob: a Job of our name that no dispatcher has made is not taken for ours.
func TestForeignJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.api.Refuse = func(line string, _ *http.Request) int {
			if line == postJob {
				return http.StatusConflict
			}
			return 0
		}
		report := w.roll(fleet.Install, 1, "")
		if report.Code != fleet.CodeRefused || !strings.Contains(report.Lines[0], "only a dispatcher makes Jobs of that name: delete it") {
			t.Errorf("%+v", report)
		}
	})
}

// TestBoth: version and section are never both changed, and no Job is made.
func TestBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		n := &v1.Node{}
		w.api.Get(nodesPath, "worker-01", n)
		n.Labels = map[string]string{nodelabel.Version: "v1", nodelabel.Section: "s1", fleet.StateLabel: "kept"}
		w.api.Put(nodesPath, n)
		report := w.roll(fleet.Install, 1, "")
		if report.Code != fleet.CodeRefused || !strings.Contains(report.Lines[0], "version and section would both change, to v2 and s2, on worker-01: ") || len(w.order) > 0 {
			t.Errorf("%+v, %v", report, w.order)
		}
	})
}

// TestRemove: a removal takes the labels off, names what it did not reach, tries again what failed,
// and leaves no Lease when nothing is left.
func TestRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4)
		w.want(w.roll(fleet.Install, 1, "nodes: 4"), fleet.CodeDone, allKept(4))
		w.node("worker-01", false)
		w.ends["worker-02"] = "4 error: a file is in use"
		w.want(w.roll(fleet.Uninstall, 1, "maxFailures: 1"), fleet.CodeFailed,
			"2 nodes have no file of it any more, 1 failed, 1 not reached", "failed, and is not as before: worker-02: error: a file is in use",
			"not reached: worker-01: not-ready: KubeletNotReady: no network")
		for name, want := range map[string]string{"worker-00": "", "worker-01": "v2 s2 kept", "worker-02": "v2 s2 failed error", "worker-03": ""} {
			if got := w.labels(name); got != want {
				t.Errorf("%s has %q; want %q", name, got, want)
			}
		}
		if w.lease() == nil || w.lease().Annotations["node-partition.io/rolled"] != "" {
			t.Errorf("Lease %+v; want one without a mark", w.lease())
		}
		w.want(w.roll(fleet.Add, 1, ""), fleet.CodeDone,
			"nothing to do: the last roll of this release has not come to its end, or failures have stopped it: "+strings.Replace(w.claim(fleet.Uninstall, 1), "revision 1", "revision 0", 1))
		w.node("worker-01", true)
		w.ends = map[string]string{}
		w.want(w.roll(fleet.Uninstall, 1, ""), fleet.CodeDone, "4 nodes have no file of it any more")
		if w.lease() != nil {
			t.Errorf("Lease %+v; want none", w.lease())
		}
		if w.made["worker-02"] != 3 || w.labels("worker-02") != "" {
			t.Errorf("%d Jobs, %q", w.made["worker-02"], w.labels("worker-02"))
		}
	})
}

// TestAdd: nodes that join later are given a Job when the roll has come to its end, and no other
// one.
func TestAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		w.want(w.roll(fleet.Add, 1, ""), fleet.CodeDone, "nothing to do: no roll of this release has come to its end")
		w.want(w.roll(fleet.Install, 1, "nodes: 3"), fleet.CodeDone, allKept(3))
		w.node("worker-03", true)
		for want := range slices.Values([]string{"1 node kept the partition", "0 nodes kept the partition"}) {
			w.want(w.roll(fleet.Add, 1, ""), fleet.CodeDone, want)
		}
		w.wantKept(4)
		if w.lease().Annotations["node-partition.io/rolled"] == "" {
			t.Error("the mark of the roll is lost")
		}
	})
}

// TestPages: a list of several pages is read whole, also when its version is forgotten in between.
func TestPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1100)
		expired := false
		w.api.Refuse = func(line string, r *http.Request) int {
			if line == "GET "+nodesPath && r.URL.Query().Get("continue") != "" && !expired {
				expired = true
				return http.StatusGone
			}
			return 0
		}
		w.want(w.roll(fleet.Install, 1, "nodes: 100%"), fleet.CodeDone, allKept(1100))
	})
}
