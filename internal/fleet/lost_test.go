package fleet

import (
	"strings"
	"testing"
	"time"
)

// change changes a node of the cluster.
func (w *world) change(name string, change func(*Node)) {
	n := with(w.nodes[name], change)
	w.nodes[name] = n
	w.r.Apply(Change{Node: &n})
}

// rejoins replaces the first Node by another one of its name, which has no labels.
func (w *world) rejoins() Node {
	const name = "a"
	w.change(name, func(n *Node) { *n = with(node(name, ""), func(n *Node) { n.UID = "another" }) })
	return w.nodes[name]
}

// leave deletes the first Node.
func (w *world) leave() {
	const name = "a"
	n := w.nodes[name]
	delete(w.nodes, name)
	w.r.Apply(Change{Node: &n, Gone: true})
}

func back(n *Node) { n.Ready, n.NotReady = true, "" }

// pass lets time pass, and carries out what follows.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	w.now = w.now.Add(d)
	w.settle()
}

const diedOfA = "failed: a: not-ready: it was not Ready when it left the cluster, before its Job had ended: KubeletNotReady: no network"

// TestLostInTrial: a node that its trial has killed, and that node repair then deletes, has failed.
// One that leaves the cluster in good order has not.
func TestLostInTrial(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		action Action
		change func(*Node)
		ends   string // of the Job
		code   int
		made   string
		line   string
	}{
		"not Ready":               {Install, off, "gone", CodeFailed, "a", diedOfA},
		"not Ready, and complete": {Install, off, "", CodeFailed, "a", diedOfA},
		"not Ready, by add":       {Add, off, "gone", CodeFailed, "a", diedOfA},
		"not Ready, by a removal": {Uninstall, off, "gone", CodeDone, "a b", "left the cluster: a"},
		"Ready":                   {Install, back, "gone", CodeDone, "a b", "left the cluster: a"},
		"Ready, and complete":     {Install, back, "", CodeDone, "a b", "left the cluster: a"},
	} {
		w := newWorld(t, test.action, "pause: 0s", node("a", ""), node("b", ""))
		if test.action == Uninstall {
			w = newWorld(t, test.action, "pause: 0s", node("a", kept), node("b", kept))
		}
		w.settle()
		w.change("a", test.change)
		a := w.nodes["a"]
		j := w.jobs[jobName(w.plan.Roll, &a)]
		w.leave()
		w.r.Apply(Change{Job: w.over(j, test.ends != "")})
		w.running = nil
		result := w.play()
		if result.Code() != test.code || w.makes() != test.made || result.Lines()[1] != test.line {
			t.Errorf("%s: made %s, code %d, %q", name, w.makes(), result.Code(), result.Lines())
		}
	}
	// It joins again under its name before its Job has ended.
	w := newWorld(t, Install, "nodes: 2\npause: 0s", node("a", ""), node("b", ""), node("c", ""))
	w.settle()
	w.change("a", off)
	before := w.nodes["a"]
	w.rejoins()
	w.r.Apply(Change{Job: w.over(w.jobs[jobName(w.plan.Roll, &before)], true)})
	w.running = []string{"b"}
	if result := w.play(); w.makes() != "a b" || len(result.Failures) != 1 || result.Lines()[1] != diedOfA {
		t.Errorf("made %s, %q", w.makes(), result.Lines())
	}
}

// TestLostInPause: a node that has kept the partition, and that is not Ready when its pause ends,
// has failed, also if node repair has deleted it.
func TestLostInPause(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(w *world){
		"it is there":  func(*world) {},
		"it has left":  func(w *world) { w.leave() },
		"it was Ready": func(w *world) { w.change("a", back); w.change("a", off) },
	} {
		w := newWorld(t, Install, "pause: 30s", node("a", ""), node("b", ""))
		w.settle()
		w.finish("a")
		w.settle()
		w.change("a", off)
		then(w)
		if w.pass(29 * time.Second); w.makes() != "a" || len(w.r.Result().Failures) != 0 {
			t.Errorf("%s: made %s in the pause, %q", name, w.makes(), w.r.Result().Lines())
		}
		w.pass(time.Second)
		wantResult(t, w.play(), CodeFailed,
			"0 nodes kept the partition, 1 failed, 1 not begun. No further Job was made: 1 node failed, and maxFailures is 0",
			"failed: a: not-ready: it has kept the partition, and was not Ready after that: KubeletNotReady: no network")
		if w.makes() != "a" {
			t.Errorf("%s: made %s", name, w.makes())
		}
	}
	// It is back in time, or was removed, and did not fail.
	w := newWorld(t, Install, "pause: 30s", node("a", ""), node("b", ""))
	w.settle()
	w.finish("a")
	w.settle()
	w.change("a", off)
	w.change("a", back)
	wantResult(t, w.play(), CodeDone, "2 nodes kept the partition")
	w = newWorld(t, Uninstall, "pause: 30s", node("a", kept), node("b", kept))
	w.settle()
	w.finish("a")
	w.settle()
	w.change("a", off)
	wantResult(t, w.play(), CodeDone, "2 nodes have no file of it any more")
}

// TestLostLater: a node that has kept the partition and goes NotReady after its pause takes a place
// again. After the time of a trial it has failed. One that leaves the cluster has not.
func TestLostLater(t *testing.T) {
	t.Parallel()
	begun := func() *world {
		w := newWorld(t, Install, "pause: 30s\ntrial: 10m", node("a", ""), node("b", ""), node("c", ""))
		w.settle()
		w.finish("a")
		w.settle()
		w.pass(30 * time.Second) // b begins
		w.change("a", off)
		w.settle()
		w.finish("b")
		w.settle()
		w.pass(30 * time.Second)
		return w
	}
	w := begun()
	if s := w.settle(); w.makes() != "a b" || !s.Until.Equal(w.now.Add(9*time.Minute+30*time.Second)) {
		t.Errorf("made %s, waits until %s; want that a takes the place", w.makes(), s.Until)
	}
	w.pass(9*time.Minute + 29*time.Second)
	if w.makes() != "a b" || len(w.r.Result().Failures) != 0 {
		t.Errorf("made %s, %q", w.makes(), w.r.Result().Lines())
	}
	w.pass(time.Second)
	if result := w.play(); w.makes() != "a b" || result.Done != 1 || len(result.Failures) != 1 || result.Failures[0].Reason != "not-ready" {
		t.Errorf("made %s, %q", w.makes(), result.Lines())
	}
	for name, then := range map[string]func(w *world){
		"it is back":  func(w *world) { w.change("a", back) },
		"it has left": func(w *world) { w.leave() },
		"another node has its name": func(w *world) {
			w.change("a", func(n *Node) { n.UID, n.Ready, n.Labels = "another", true, node("a", kept).Labels })
		},
	} {
		w := begun()
		then(w)
		w.now = w.now.Add(time.Hour)
		if result := w.play(); result.Code() != CodeDone || !strings.Contains(w.makes(), "c") {
			t.Errorf("%s: made %s, %q", name, w.makes(), result.Lines())
		}
	}
	// The place is free in time for the next one, and the second fall counts from its beginning.
	w = begun()
	w.change("a", back)
	if w.settle(); w.makes() != "a b c" {
		t.Errorf("made %s; want c when a is back", w.makes())
	}
	w.pass(8 * time.Minute)
	w.change("a", off)
	w.pass(3 * time.Minute)
	w.pass(6 * time.Minute)
	if failures := w.r.Result().Failures; len(failures) != 0 {
		t.Errorf("%+v after nine minutes", failures)
	}
	w.pass(time.Minute)
	w.pass(3 * time.Minute)
	if failures := w.r.Result().Failures; len(failures) != 1 {
		t.Errorf("%+v after ten minutes", failures)
	}
}

// TestLostResume: a dispatcher that begins in the middle gives a node that was kept before, and
// that is not Ready, the time of a trial.
func TestLostResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Install, "pause: 30s\ntrial: 10m", with(node("a", kept), off), node("b", ""))
	a := w.nodes["a"]
	w.job(a, w.plan.Roll, Install)
	w.over(w.jobs[jobName(w.plan.Roll, &a)], false)
	w.start()
	w.settle()
	w.pass(30 * time.Second)
	w.pass(9 * time.Minute)
	if result := w.r.Result(); w.makes() != "" || len(result.Failures) != 0 {
		t.Errorf("made %q, %q", w.makes(), result.Lines())
	}
	w.pass(time.Minute)
	if result := w.play(); w.makes() != "" || len(result.Failures) != 1 {
		t.Errorf("made %q, %q", w.makes(), result.Lines())
	}
}
