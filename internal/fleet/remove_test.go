package fleet

import "testing"

// TestRemoveRegistered: a node that is not selected any more, and that registers again while a
// removal goes on, has lost its labels. It has its turn, because a Job was made for its name.
func TestRemoveRegistered(t *testing.T) {
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
		w.rejoins()
		result := w.play()
		if w.makes() != "b a" || result.Code() != CodeDone {
			t.Errorf("gone first %t: made %s, %d, %q; want a, too: it has a Job of a roll", gone, w.makes(), result.Code(), result.Lines())
		}
	}
}

// TestRemoveContinued: a dispatcher that continues a removal counts the failures of the one before.
// Another attempt tries those nodes again.
func TestRemoveContinued(t *testing.T) {
	t.Parallel()
	for continued, made := range map[bool]string{true: "a b", false: "a b a"} {
		w := newWorld(t, Uninstall, "nodes: 2", node("a", kept), node("b", kept), node("c", kept))
		w.ends["a"] = "4 error: x"
		w.settle()
		w.finish("a")
		w.settle() // it has stopped, and waits for b
		w.plan.Continued = continued
		w.start()
		if w.settle(); w.makes() != made {
			t.Errorf("continued %t: made %s; want %s", continued, w.makes(), made)
		}
	}
	removal := Claim{Release: "ns/ours", Revision: 2, Action: Uninstall, Roll: "u"}
	taken := removal.Taken(nil, "me")
	for end, want := range map[Ended]bool{Interrupted: true, Stopped: false} {
		if got := removal.Continues(removal.Released(taken, end)); got != want {
			t.Errorf("continues after %d: %t", end, got)
		}
	}
	other := removal
	other.Roll = "another"
	if removal.Continues(nil) || !removal.Continues(taken) || removal.Continues(other.Taken(nil, "me")) {
		t.Error("continues what is not the same removal, or does not continue one that died")
	}
}
