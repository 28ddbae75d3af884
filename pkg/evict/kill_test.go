package evict

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestStartedSinceTheList(t *testing.T) {
	bubble(t, func(n *node) {
		n.listed = n.list()
		n.listed[0].Containers = n.listed[0].Containers[:1]
		n.run(n.started(hardOnly), 50*time.Millisecond)
		n.expect("kill greedy.c1", "kill greedy.c2", "tell greedy")
	})
	// Its container had ended when the list was made, and the kubelet restarted it; other pods were
	// evicted in its place (seen on a node).
	bubble(t, func(n *node) {
		n.listed = n.list()
		n.listed[0].Containers = nil
		n.run(n.started(hardOnly), 50*time.Millisecond)
		n.expect("kill greedy.c1", "kill greedy.c2", "tell greedy")
	})
}

// TestNothingRuns: a pod without known or running containers is ranked by the memory that its slice
// is charged for.
func TestNothingRuns(t *testing.T) {
	bubble(t, func(n *node) {
		n.listed = n.list()
		n.listed[0].Containers = nil
		n.set(func() {
			n.pod("greedy").rest, n.pod("modest").rest = 300*mi, 0
			for _, name := range []string{"greedy", "modest"} {
				for _, c := range n.pod(name).containers {
					n.exited(n.pod(name), c)
				}
			}
		})
		var empty []string
		for _, p := range Measure(n.started(hardOnly).Cgroups, n.listed, func(err error) { n.t.Error(err) }) {
			if p.Empty {
				empty = append(empty, p.Name)
			}
			if p.Name == "modest" {
				n.t.Errorf("%+v is in the order, and has nothing", p)
			}
		}
		if !slices.Equal(empty, []string{"greedy"}) {
			n.t.Errorf("without processes are %q", empty)
		}
	})
}

func TestContainersCannotBeListed(t *testing.T) {
	bubble(t, func(n *node) {
		n.scopesErr = errors.New("no such luck")
		n.run(n.started(hardOnly), 4*time.Second)
		n.expect("kill greedy.c1", "kill greedy.c2", "tell greedy", "confirm greedy")
		n.heard("warn no such luck", "signalled", "evicting greedy hard evict", "count hard evict", "evicted greedy evict")
	})
}

// TestListIsOld: evicting a pod whose containers have ended meanwhile frees nothing, and the next
// pod is evicted.
func TestListIsOld(t *testing.T) {
	bubble(t, func(n *node) {
		n.pod("greedy").Priority = -1
		n.listed = n.list()
		n.set(func() {
			n.pod("greedy").rest = 5 * mi // of its sandbox
			for _, c := range n.pod("greedy").containers {
				n.exited(n.pod("greedy"), c)
			}
			n.pod("modest").containers[0].uses = 800 * mi
		})
		m := n.started(hardOnly)
		n.run(m, 4*time.Second)
		n.expect("kill modest.c1", "tell modest", "confirm modest")
		n.heard("signalled", "evicting modest hard evict", "count hard evict", "evicted modest evict")
	})
}

// TestEndsWhileItIsKilled: a container that is already gone needs no kill, and is no failure.
func TestEndsWhileItIsKilled(t *testing.T) {
	bubble(t, func(n *node) {
		n.beforeKill = func(id string) {
			if id == "greedy.c2" {
				n.set(func() { n.exited(n.pod("greedy"), n.pod("greedy").containers[1]) })
			}
		}
		n.run(n.started(hardOnly), 4*time.Second)
		n.expect("kill greedy.c1", "tell greedy", "confirm greedy")
		n.heard("signalled", "evicting greedy hard evict", "count hard evict", "evicted greedy evict")
	})
}

func TestKernelCannotKill(t *testing.T) {
	for name, failure := range map[string]error{"before 5.14": nil, "forbidden": fs.ErrPermission} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.noKill, n.killErr = failure == nil, failure
				n.run(n.started(hardOnly), 100*time.Millisecond)
				did := n.all()
				slices.Sort(did) // containers are stopped at the same time
				if want := []string{"stop greedy.c1 0s", "stop greedy.c2 0s", "tell greedy"}; !slices.Equal(did, want) {
					n.t.Errorf("did %q, want %q", did, want)
				}
				failed := slices.Contains(n.words(), "count failed stop")
				if failed != (failure != nil) {
					n.t.Errorf("a failure was counted: %t", failed)
				}
			})
		})
	}
}

// TestRuntimeFails: that is a failure once per container, unless the container has ended all the
// same.
func TestRuntimeFails(t *testing.T) {
	bubble(t, func(n *node) {
		n.noAPI, n.noKill, n.stopErr = true, true, errors.New("no runtime")
		m := n.started(hardOnly)
		n.run(m, 100*time.Millisecond)
		said := n.words()
		if i := slices.Index(said, "failed stop greedy: no runtime"); i < 1 || said[i-1] != "count failed stop" {
			n.t.Errorf("told %q", said)
		}
		n.run(m, 20*time.Second)
		if said := n.words(); !slices.Contains(said, "count failed timeout") {
			n.t.Errorf("told %q, want that it has not ended", said)
		}
	})
}

// TestDoesNotEnd: the memory of a pod that does not end is no reason to evict the next one, and the
// pod itself is left alone. The next one is evicted when it grows.
func TestDoesNotEnd(t *testing.T) {
	bubble(t, func(n *node) {
		n.set(func() { n.pod("greedy").containers[0].immortal = true; n.pod("greedy").containers[0].uses = 350 * mi })
		n.api = func(context.Context, int) error { return ErrFinal }    // so that the pod stays
		n.set(func() { n.pod("modest").containers[0].uses = 430 * mi }) // 70 are left without the other
		m := n.started(hardOnly)
		n.run(m, endTimeout)
		n.expect("kill greedy.c1", "kill greedy.c2")
		n.words()
		n.run(m, time.Second)
		n.expect()
		said := n.words()
		if !slices.Contains(said, "count failed timeout") || !slices.Contains(said, "evicted greedy restart") {
			n.t.Errorf("told %q", said)
		}
		if e := n.evicted[0]; e.UID != "greedy" || !strings.Contains(e.Problem, "have not ended 10s after") {
			n.t.Errorf("ended as %+v", e)
		}
		n.run(m, reclaimTimeout)
		n.expect()
		if r := m.Report(); r.Held != HoldStays || !r.NoCandidate {
			n.t.Errorf("reported %+v", r)
		}
		// 34 are left.
		n.set(func() { n.cache = [3]uint64{}; n.pod("modest").containers[0].uses = 466 * mi })
		n.run(m, time.Second)
		n.expect("kill modest.c1")
	})
}
