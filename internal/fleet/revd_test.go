package fleet

import (
	"testing"
)

// F: a node that is not selected any more, and that registers again while the removal goes on, has
// a Job of a roll, and is forgotten.
func TestRevdUninstallForgets(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{false, true} {
		a := with(node("a", "pool=x,"+kept), off)
		b := node("b", "pool=x,"+kept)
		w := newWorld(t, Uninstall, "selector: pool=x", a, b)
		w.job(a, "roll-before", Install)
		w.over(w.jobs[jobName("roll-before", &a)], false)
		w.start()
		w.settle()
		if gone {
			w.r.Apply(Change{Node: &a, Gone: true})
		}
		again := with(node("a", ""), func(n *Node) { n.UID = "another" })
		w.nodes["a"] = again
		w.r.Apply(Change{Node: &again})
		result := w.play()
		if w.makes() != "b a" {
			t.Errorf("gone first %t: made %s, %d, %q; want a, too: it has a Job of a roll", gone, w.makes(), result.Code(), result.Lines())
		}
	}
}

// F: a dispatcher of a removal that the Job controller replaces forgets the failures before.
func TestRevdUninstallBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Uninstall, "nodes: 2", node("a", kept), node("b", kept), node("c", kept))
	w.ends["a"] = "4 error: x"
	w.settle()
	w.finish("a")
	w.settle() // it has stopped, and waits for b. Now its node is drained.
	w.start()
	if w.settle(); w.makes() != "a b" {
		t.Errorf("made %s; want no further Job: one node has failed of 0 allowed", w.makes())
	}
}

// No finding: a guard of pools.allow that no other test holds. A worker that comes back waits while a
// node of the control plane is at work.
func TestRevdWorkerBesideControlPlane(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Install, "controlPlane: last\nnodes: 3\npause: 0s", node("m", control), with(node("z", ""), off), with(node("y", ""), off))
	w.settle()
	z := node("z", "")
	w.nodes["z"] = z
	w.r.Apply(Change{Node: &z})
	if w.settle(); w.makes() != "m" {
		t.Errorf("made %s; want m alone", w.makes())
	}
}
