package fleet

import "testing"

// TestResumeForgets: a dispatcher that begins after Jobs were deleted knows neither of those that ran
// nor of those that had failed, and tries their nodes again.
func TestResumeForgets(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]bool{"ran": false, "had failed": true} {
		w := newWorld(t, Install, "", node("a", ""), node("b", ""))
		w.ends["a"] = "4 verify: x"
		w.settle()
		if ends {
			w.finish("a")
			w.settle()
		}
		clear(w.jobs)
		w.running = nil
		delete(w.ends, "a")
		w.start()
		wantResult(t, w.play(), CodeDone, "2 nodes kept the partition")
		if w.makes() != "a a b" {
			t.Errorf("%s: made %s", name, w.makes())
		}
	}
}
