package evict

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/cgroups"
)

// TestContainersEndedMeanwhile: a container that ends between the open and the write of cgroup.kill
// (ENODEV) was not to be killed, and does not count as a failure.
func TestContainersEndedMeanwhile(t *testing.T) {
	bubble(t, func(n *node) {
		greedy := n.pod("greedy")
		n.beforeKill = func(id string) {
			n.set(func() {
				for _, c := range greedy.containers {
					if c.id == id {
						n.exited(greedy, c)
						n.killErr = unix.ENODEV
					}
				}
			})
		}
		n.run(n.started(hardOnly), 4*time.Second)
		n.expect("evict greedy", "confirm greedy")
		n.expectEvents("signalled", "evicting greedy hard evict", "count hard evict", "evicted greedy evict")
	})
}

// TestContainersSideBySide: at the limit a kill may take condemnPatience. No container of the pod
// waits for the kill of another one, and the memory is read meanwhile.
func TestContainersSideBySide(t *testing.T) {
	bubble(t, func(n *node) {
		greedy := n.pod("greedy")
		n.set(func() { greedy.containers[0].uses += 40 * mi })
		killed := map[string]time.Time{}
		n.beforeKill = func(id string) {
			n.mu.Lock()
			killed[id] = time.Now()
			n.mu.Unlock()
			<-time.After(condemnPatience) // dirty pages are written back
		}
		m, begin, polls := n.started(hardOnly), time.Now(), 0
		defer n.stop(m)
		available := n.available
		n.available = func() { polls++ }
		for time.Since(begin) < condemnPatience/2 {
			n.run(m, time.Millisecond)
		}
		n.available = available
		n.mu.Lock()
		defer n.mu.Unlock()
		if len(killed) != 2 || killed["greedy.c1"].Sub(killed["greedy.c2"]).Abs() > time.Millisecond {
			n.t.Errorf("killed at %v; want both at once", killed)
		}
		if polls < 20 {
			n.t.Errorf("the memory was read %d times in half a second while they were killed", polls)
		}
	})
}

// TestContainersKillWithoutCgroup: the cgroup with an empty path is the root, with the whole node.
func TestContainersKillWithoutCgroup(t *testing.T) {
	c := containers{Options: &Options{Actions: Actions{
		Kill: func(cgroup string, _ bool) error { t.Errorf("killed %q", cgroup); return nil },
	}}}
	if err := c.kill(Container{ID: "a"}, false); err == nil {
		t.Error("no error")
	}
}

// TestContainersKillUnread: a container that can be neither killed nor read has not ended. The
// runtime is asked for it.
func TestContainersKillUnread(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(root+"/a/cgroup.events", 0o755); err != nil {
		t.Fatal(err)
	}
	c := containers{Options: &Options{Cgroups: cgroups.FS(root), Actions: Actions{
		Kill: func(string, bool) error { return unix.EMFILE },
	}}}
	if err := c.kill(Container{ID: "a", Cgroup: "a"}, false); !errors.Is(err, unix.EMFILE) {
		t.Errorf("%v; want %v", err, unix.EMFILE)
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
		asked := n.asked
		if n.run(m, time.Minute); n.asked != asked || asked < 4 {
			n.t.Errorf("the runtime was asked %d times, and %d times later; want only a few times", asked, n.asked-asked)
		}
	})
}
