package evict

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"
)

// TestMeasureEmptyPods: a pod without known or running containers is ranked by the memory that its
// slice is charged for.
func TestMeasureEmptyPods(t *testing.T) {
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

// TestManagerPodUnreadable: a pod whose cgroup cannot be read is not evicted for that. It is ranked
// by its last usage, and before the first by its request.
func TestManagerPodUnreadable(t *testing.T) {
	for name, test := range map[string]struct {
		pod  string
		read bool // before it cannot be read
		want []string
	}{
		"never read":                   {"modest", false, []string{"kill greedy.c1", "kill greedy.c2", "evict greedy"}},
		"read before":                  {"modest", true, []string{"kill greedy.c1", "kill greedy.c2", "evict greedy"}},
		"read before, and the largest": {"greedy", true, []string{"kill greedy.c1", "kill greedy.c2", "evict greedy"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				m := n.started(hardOnly)
				if test.read {
					m.measured()
				}
				path := n.path(n.pod(test.pod).Cgroup, "memory.stat")
				if err := os.Rename(path, path+".away"); err != nil {
					n.t.Fatal(err)
				}
				if err := os.Mkdir(path, 0o700); err != nil { // can be opened, and not be read
					n.t.Fatal(err)
				}
				poll := m.step(n.ctx)
				if err := errors.Join(os.Remove(path), os.Rename(path+".away", path)); err != nil {
					n.t.Fatal(err)
				}
				n.run(m, time.Second-poll)
				n.expect(test.want...)
			})
		})
	}
}
