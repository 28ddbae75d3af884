package fleet

import (
	"testing"
	"time"
)

// TestReadAgain: a pod that could not be read is read again. Its message says whether anything was
// written to the node.
func TestReadAgain(t *testing.T) {
	t.Parallel()
	a := node("a", "")
	w := newWorld(t, Install, "", a)
	w.settle()
	w.ends["a"] = "3 cgroup-v1: x"
	w.finish("a")
	for range 3 {
		if s := w.r.Next(w.now); s.Kind != Read {
			t.Fatalf("%+v; want that the pod is read until there is an answer", s)
		}
	}
	w.play()
	if got := describe(w.nodes["a"]); got != "reason=cgroup-v1,state=refused" {
		t.Errorf("a has %s", got)
	}
}

// TestCanariesBesideOthers: Jobs of a roll before, which run on nodes of a later pool, do not give
// an earlier pool the share of that.
func TestCanariesBesideOthers(t *testing.T) {
	t.Parallel()
	nodes := []Node{
		node("a", "canary="), node("b", "canary="), node("c", "canary="), node("d", "canary="),
		node("m", ""), node("n", ""), node("o", ""), node("p", ""), node("q", ""),
		node("r", ""), node("s", ""), node("t", ""), node("u", ""), node("v", ""),
	}
	w := newWorld(t, Install, "nodes: 50%\npools: [canary]", nodes...)
	w.job(nodes[4], "roll-before", Install)
	w.start()
	if w.settle(); w.makes() != "a" {
		t.Errorf("made %s; want that two Jobs run, the one of before and one of a canary", w.makes())
	}
}

// TestReplacedInPause: a node that was not Ready in its pause, and that joins again as another one,
// has failed, too.
func TestReplacedInPause(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		then     func(w *world)
		failures int
	}{
		"not Ready":           {func(w *world) { w.change("a", off) }, 1},
		"not Ready, and gone": {func(w *world) { w.change("a", off); w.leave(); w.nodes["a"] = node("a", "") }, 1},
		"Ready":               {func(*world) {}, 0},
		"not Ready later":     {func(w *world) { w.pass(10 * time.Minute); w.change("a", off) }, 0},
		"before it was begun": {func(w *world) { w.change("a", off); w.start(); w.settle() }, 0},
	} {
		w := newWorld(t, Install, "pause: 10m", node("a", ""), node("b", ""))
		w.settle()
		w.finish("a")
		w.settle()
		test.then(w)
		w.rejoins()
		w.settle()
		result := w.r.Result()
		if len(result.Failures) != test.failures || result.Done != 1-test.failures {
			t.Errorf("%s: %q", name, result.Lines())
		}
	}
}

// TestFoundEnded: a Job that is seen first when it has failed, because the API server was away
// meanwhile, is of this attempt of a removal.
func TestFoundEnded(t *testing.T) {
	t.Parallel()
	a := node("a", kept)
	w := newWorld(t, Uninstall, "", a, node("b", kept))
	if s := w.r.Next(w.now); s.Kind != Create {
		t.Fatalf("%+v", s)
	}
	w.ends["a"] = "4 error: x"
	w.r.Apply(Change{Job: w.over(w.job(a, w.plan.Roll, Uninstall), true)})
	result := w.play()
	if w.makes() != "" || len(result.Failures) != 1 {
		t.Errorf("made %s, %q", w.makes(), result.Lines())
	}
	// A node that dies in its pause has failed, as this dispatcher has seen it Ready.
	w = newWorld(t, Install, "pause: 30s", node("a", ""), node("b", ""))
	a = node("a", "")
	w.r.Next(w.now)
	w.r.Apply(Change{Job: w.over(w.job(a, w.plan.Roll, Install), false)})
	w.settle()
	w.change("a", off)
	w.pass(30 * time.Second)
	if result := w.r.Result(); len(result.Failures) != 1 {
		t.Errorf("%q", result.Lines())
	}
}

// TestJoinsBeside: a node takes a place if it joins while the Job of a former one of its name runs.
func TestJoinsBeside(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Install, "", node("b", ""))
	w.job(node("a", ""), w.plan.Roll, Install)
	w.start()
	w.rejoins()
	if w.settle(); w.makes() != "" {
		t.Errorf("made %s beside the Job of the former a", w.makes())
	}
}

// TestContinuedPlaces: a Job that runs takes a place, also on a node that only a Job of another
// roll makes a node of the removal.
func TestContinuedPlaces(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"0-before", "zz-before"} { // Jobs are listed by their names
		for _, runs := range []bool{false, true} {
			a := node("a", "")
			w := newWorld(t, Uninstall, "selector: pool=x", a, node("b", "pool=x"))
			j := w.job(a, before, Install)
			if !runs {
				w.over(j, false)
				w.job(a, w.plan.Roll, Uninstall)
			}
			w.start()
			if w.settle(); w.makes() != "" {
				t.Errorf("%s, %t: made %s beside the Job of a", before, runs, w.makes())
			}
		}
	}
}
