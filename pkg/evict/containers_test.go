package evict

import (
	"errors"
	"io/fs"
	"slices"
	"testing"
	"time"
)

// TestContainersEndedBeforeKill: a container that is already gone needs no kill, and is no failure.
func TestContainersEndedBeforeKill(t *testing.T) {
	bubble(t, func(n *node) {
		n.beforeKill = func(id string) {
			if id == "greedy.c2" {
				n.set(func() { n.exited(n.pod("greedy"), n.pod("greedy").containers[1]) })
			}
		}
		n.run(n.started(hardOnly), 4*time.Second)
		n.expect("kill greedy.c1", "evict greedy", "confirm greedy")
		n.expectEvents("signalled", "evicting greedy hard evict", "count hard evict", "evicted greedy evict")
	})
}

// TestContainersKillWithoutCgroup: the cgroup with an empty path is the root, with the whole node.
func TestContainersKillWithoutCgroup(t *testing.T) {
	c := containers{Options: &Options{Actions: Actions{
		Kill: func(cgroup string, _ bool) error { t.Errorf("killed %q", cgroup); return nil },
	}}}
	if err := c.kill(Stopped{ID: "a"}, false); err == nil {
		t.Error("no error")
	}
}

func TestContainersKillFails(t *testing.T) {
	for name, failure := range map[string]error{"before 5.14": nil, "forbidden": fs.ErrPermission} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.noKill, n.killErr = failure == nil, failure
				n.run(n.started(hardOnly), 100*time.Millisecond)
				did := n.all()
				slices.Sort(did) // containers are stopped at the same time
				if want := []string{"evict greedy", "stop greedy.c1 0s", "stop greedy.c2 0s"}; !slices.Equal(did, want) {
					n.t.Errorf("did %q, want %q", did, want)
				}
				failed := slices.Contains(n.takeEvents(), "count failed stop")
				if failed != (failure != nil) {
					n.t.Errorf("a failure was counted: %t", failed)
				}
			})
		})
	}
}

// TestContainersRuntimeFails: a failed stop is a failure once per container, unless the container
// has ended all the same.
func TestContainersRuntimeFails(t *testing.T) {
	bubble(t, func(n *node) {
		n.noAPI, n.noKill, n.stopErr = true, true, errors.New("no runtime")
		m := n.started(hardOnly)
		n.run(m, 100*time.Millisecond)
		events := n.takeEvents()
		if i := slices.Index(events, "failed stop greedy: no runtime"); i < 1 || events[i-1] != "count failed stop" {
			n.t.Errorf("events %q", events)
		}
		n.run(m, 20*time.Second)
		if events := n.takeEvents(); !slices.Contains(events, "count failed timeout") {
			n.t.Errorf("events %q, want that it has not ended", events)
		}
	})
}
