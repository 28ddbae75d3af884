package fleet

import "testing"

// TestPoolsControlPlane: a worker that comes back waits while a node of the control plane is at
// work, and has the share of the workers' pool then.
func TestPoolsControlPlane(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Install, "controlPlane: last\nnodes: 100%\npause: 0s", node("m", control), with(node("y", ""), off), with(node("z", ""), off))
	w.settle()
	w.change("y", back)
	w.change("z", back)
	if w.settle(); w.makes() != "m" {
		t.Errorf("made %s; want m alone", w.makes())
	}
	w.finish("m")
	if w.settle(); w.makes() != "m y z" {
		t.Errorf("made %s; want both workers at once", w.makes())
	}
}

// TestPoolsOthers: a node keeps its place for as long as a Job of another roll runs there, also
// when its own Job has ended.
func TestPoolsOthers(t *testing.T) {
	t.Parallel()
	a := node("a", kept)
	w := newWorld(t, Install, "pause: 0s", a, node("b", ""))
	w.job(a, w.plan.Roll, Install)
	w.over(w.jobs[jobName(w.plan.Roll, &a)], false)
	before := w.job(a, "roll-before", Install)
	w.start()
	if w.settle(); w.makes() != "" {
		t.Errorf("made %s beside the Job of another roll", w.makes())
	}
	w.r.Apply(Change{Job: w.over(before, false)})
	if w.settle(); w.makes() != "b" {
		t.Errorf("made %q when it has ended", w.makes())
	}
}

// TestPoolsRemoval: a node of the control plane that fails does not stop a removal within
// maxFailures.
func TestPoolsRemoval(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Uninstall, "maxFailures: 1", node("m", control+","+kept), node("n", control+","+kept))
	w.ends["m"] = "1 error: x"
	if result := w.play(); w.makes() != "m n" || result.Done != 1 || len(result.Failures) != 1 {
		t.Errorf("made %s, %q", w.makes(), result.Lines())
	}
}
