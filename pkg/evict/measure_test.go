package evict

import (
	"slices"
	"testing"
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
