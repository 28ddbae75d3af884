package evict

import (
	"slices"
	"testing"
	"time"
)

// TestGivenUpIsNoEviction: an eviction that the next run gives up before it was reported counts as
// a restart: the kubelet restarts the containers.
func TestGivenUpIsNoEviction(t *testing.T) {
	bubble(t, func(n *node) {
		n.ends = time.Hour // the processes do not end before the program does
		m := n.started(hardOnly)
		n.run(m, 10*time.Millisecond)
		n.stop(m)
		n.boot()
		n.words()
		off := hardOnly
		off.Off = true
		m = n.started(off)
		n.run(m, time.Minute)
		if said := n.words(); n.apiCalls != 0 || slices.Contains(said, "count hard evict") || !slices.Contains(said, "count hard restart") {
			n.t.Errorf("the API server was asked %d times, and it is said %q", n.apiCalls, said)
		}
	})
}

// TestMemoryComesBackWithinALook: the processes end between the reading of the partition and the
// reading of the pod. The poll reads again before it decides, and does not call NoCandidate.
func TestMemoryComesBackWithinALook(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() {
			n.pods = slices.DeleteFunc(n.pods, func(p *nodePod) bool { return p.Name == "modest" })
			n.pod("critical").containers[0].uses = 450 * mi
		})
		n.noAPI, n.ends = true, time.Hour
		m := n.started(hardOnly)
		n.run(m, 10*time.Millisecond)
		n.expect("kill greedy.c1", "kill greedy.c2")
		n.heard("signalled", "evicting greedy hard restart")
		s := Snapshot{Now: time.Now(), API: m.API.Available(), Config: m.present()}
		if err := m.read(&s); err != nil {
			n.t.Fatal(err)
		}
		n.set(func() { // now the processes end, and the kernel has their memory
			for _, c := range n.pod("greedy").containers {
				c.running = false
				n.files(c.cgroup, map[string]string{"cgroup.events": "populated 0\nfrozen 0\n"})
			}
		})
		if freed := m.executor.progress(n.ctx, s); !freed {
			n.t.Fatal("the memory is back, and the look would go on with what it has read before")
		}
		if err := m.read(&s); err != nil {
			n.t.Fatal(err)
		}
		if d := m.decide(s); d.NoCandidate || d.Held != "" || d.Available != 550*mi {
			n.t.Errorf("550 of 1000 MiB are available, and decided is %+v", d)
		}
	})
}
