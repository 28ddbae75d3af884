package fleet

import "testing"

// inTheMiddle returns a roll in which the nodes a and b have a Job, and another node has replaced a
// if replaced is true.
func inTheMiddle(t *testing.T, replaced bool) (w *world, a Node, j *Job) {
	t.Helper()
	w = newWorld(t, Install, "nodes: 5\npause: 0s", node("a", ""), node("b", ""))
	w.settle()
	a = w.nodes["a"]
	j = w.jobs[jobName(w.plan.Roll, &a)]
	if replaced {
		w.change("a", func(n *Node) { n.UID = "another" })
	}
	return w, a, j
}

// TestLateReplaced: another node of the same name waits for the Job of the former one, although
// there are places. What a watch reports of the former one later is not about the present one.
func TestLateReplaced(t *testing.T) {
	t.Parallel()
	w, a, j := inTheMiddle(t, true)
	if w.settle(); w.makes() != "a b" {
		t.Errorf("made %s while the Job of the former node runs", w.makes())
	}
	w.r.Apply(Change{Job: w.over(j, false)})
	w.running = []string{"b"}
	if w.settle(); w.makes() != "a b a" {
		t.Errorf("made %s", w.makes())
	}
	w.r.Apply(Change{Node: &a, Gone: true})
	wantResult(t, w.play(), CodeDone, "2 nodes kept the partition")
}

// TestLateGone: the end of a Node that was told late, before its successor has its turn.
func TestLateGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Install, "", node("a", ""), node("b", ""))
	w.settle()
	before := w.nodes["b"]
	w.change("b", func(n *Node) { n.UID = "another" })
	w.r.Apply(Change{Node: &before, Gone: true})
	wantResult(t, w.play(), CodeDone, "2 nodes kept the partition")
}

// TestLateJob: the end of a Job of the same name with another UID does not end the present Job.
func TestLateJob(t *testing.T) {
	t.Parallel()
	w, _, j := inTheMiddle(t, false)
	former := *j
	former.UID = "former"
	w.r.Apply(Change{Job: &former, Gone: true})
	wantResult(t, w.play(), CodeDone, "2 nodes kept the partition")
}

// TestLateLabels: labels that were written to a Node that is replaced meanwhile are not on the
// present one, which would count as seen by a roll.
func TestLateLabels(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Add, "", node("a", ""))
	w.settle()
	w.running = nil
	n := w.nodes["a"]
	w.r.Apply(Change{Job: w.over(w.jobs[jobName(w.plan.Roll, &n)], false)})
	s := w.r.Next(w.now)
	if s.Kind != Label {
		t.Fatalf("%+v", s)
	}
	w.change("a", func(n *Node) { n.UID = "another" })
	w.r.Labelled(s)
	wantResult(t, w.play(), CodeDone, "1 node kept the partition")
	if w.makes() != "a a" {
		t.Errorf("made %s", w.makes())
	}
}

// TestLateMade: a Job that shows up after its node has left the cluster does not count.
func TestLateMade(t *testing.T) {
	t.Parallel()
	a := node("a", kept)
	w := newWorld(t, Uninstall, "", a, node("b", kept))
	w.over(w.job(a, "roll-before", Install), false)
	w.start()
	w.leave()
	j := w.job(a, w.plan.Roll, Uninstall)
	w.r.Apply(Change{Job: j})
	w.r.Apply(Change{Job: w.over(j, false)})
	wantResult(t, w.play(), CodeDone, "1 node have no file of it any more")
}

// TestLateRemoved: what a watch reports late of a Job that was removed for another attempt does not
// end that.
func TestLateRemoved(t *testing.T) {
	t.Parallel()
	a := node("a", kept)
	w := newWorld(t, Uninstall, "", a)
	before := w.over(w.job(a, w.plan.Roll, Uninstall), true)
	w.start()
	w.settle()
	w.r.Apply(Change{Job: before})
	w.r.Apply(Change{Job: before, Gone: true})
	wantResult(t, w.play(), CodeDone, "1 node have no file of it any more")
	// Another node has the name by the time at which the Job is removed, and has a Job already.
	w = newWorld(t, Uninstall, "", a)
	w.over(w.job(a, w.plan.Roll, Uninstall), true)
	w.start()
	w.change("a", func(n *Node) { n.UID = "another" })
	again := w.nodes["a"]
	w.r.Apply(Change{Job: w.job(again, w.plan.Roll, Uninstall)})
	w.running = []string{"a"}
	wantResult(t, w.play(), CodeDone, "1 node have no file of it any more")
	if w.makes() != "" {
		t.Errorf("made %s beside the Job that it has", w.makes())
	}
	// It has none.
	w = newWorld(t, Uninstall, "", a)
	w.over(w.job(a, w.plan.Roll, Uninstall), true)
	w.start()
	w.change("a", func(n *Node) { n.UID = "another" })
	wantResult(t, w.play(), CodeDone, "1 node have no file of it any more")
}

// TestPodRead: the pod of a Job that has failed is read once for each Job, and not if the deadline
// is the cause: the last that is known of the pod says what it waited for.
func TestPodRead(t *testing.T) {
	t.Parallel()
	a := node("a", "")
	w := newWorld(t, Install, "", a)
	j := w.job(a, "roll-before", Install)
	w.start()
	w.settle()
	w.ends["a"] = "1 check: x"
	w.r.Apply(Change{Job: w.over(j, true)})
	for range 3 {
		if s := w.settle(); !s.Until.IsZero() {
			w.now = s.Until
		}
	}
	wantResult(t, w.play(), CodeFailed, "0 nodes kept the partition, 1 failed. No further Job was made: 1 node failed, and maxFailures is 0",
		"failed, and is as before: a: check: x")
	if w.reads != 2 {
		t.Errorf("%d reads; want one for each Job", w.reads)
	}
	w = newWorld(t, Install, "", a)
	w.settle()
	late := *w.jobs[jobName(w.plan.Roll, &a)]
	late.Failed, late.Reason = true, deadlineExceeded
	w.r.Apply(Change{Job: &late})
	w.running = nil
	w.play()
	if w.reads != 0 {
		t.Errorf("%d reads for a deadline", w.reads)
	}
}
