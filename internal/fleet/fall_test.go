package fleet

import (
	"testing"
	"time"
)

// TestFallRepeated: what is told again of a node that is not Ready neither begins its time again
// nor ends it, and the node has failed once.
func TestFallRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Install, "pause: 30s\nmaxFailures: 1", node("a", ""), node("b", ""), node("c", ""))
	w.settle()
	w.finish("a")
	w.settle()
	w.pass(30 * time.Second) // b begins
	w.change("a", off)
	w.settle()
	w.finish("b")
	w.settle()
	w.pass(time.Minute)
	for range 3 {
		w.change("a", off)
		w.pass(time.Minute)
	}
	if w.makes() != "a b" {
		t.Errorf("made %s while a has a place", w.makes())
	}
	w.pass(6 * time.Minute)
	if result := w.r.Result(); w.makes() != "a b c" || len(result.Failures) != 1 {
		t.Errorf("made %s, %q", w.makes(), result.Lines())
	}
	w.pass(10 * time.Minute)
	if result := w.r.Result(); result.Done != 1 || len(result.Failures) != 1 {
		t.Errorf("%q", result.Lines())
	}
}

// TestFallWait: the roll waits for what ends first: a pause, or the time of a node that is not
// Ready.
func TestFallWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Install, "nodes: 2\npause: 30s", node("a", ""), node("b", ""), node("c", ""), node("d", ""))
	w.settle()
	w.finish("a")
	w.settle()
	w.pass(30 * time.Second) // c begins
	w.change("a", off)
	w.finish("b")
	if s := w.settle(); !s.Until.Equal(w.now.Add(30 * time.Second)) {
		t.Errorf("waits until %s; want the pause of b", s.Until)
	}
}

// TestRestOfFormer: the pause of a node that was replaced is not the pause of the present one.
func TestRestOfFormer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Install, "nodes: 2\npause: 10m", node("a", ""), node("b", ""), node("c", ""))
	w.settle()
	w.finish("a")
	w.finish("b")
	w.settle()
	w.pass(time.Minute)
	again := w.rejoins()
	// An attempt without an answer has made its Job.
	w.r.Apply(Change{Job: w.over(w.job(again, w.plan.Roll, Install), false)})
	w.settle()
	w.change("a", off)
	w.pass(9 * time.Minute)
	if result := w.r.Result(); len(result.Failures) != 0 {
		t.Errorf("%q before its own pause is over", result.Lines())
	}
	w.pass(time.Minute)
	if result := w.r.Result(); len(result.Failures) != 1 {
		t.Errorf("%q", result.Lines())
	}
}

// TestPoolLeft: a node that leaves a pool does not count in the share of it.
func TestPoolLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Install, "nodes: 50%", node("a", ""), node("b", ""), node("c", ""), node("d", ""))
	w.change("d", func(n *Node) { n.Labels = map[string]string{"kubernetes.io/os": "windows"} })
	if w.settle(); w.makes() != "a" {
		t.Errorf("made %s; want half of three nodes", w.makes())
	}
}
