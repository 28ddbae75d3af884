package evict

import (
	"slices"
	"testing"
	"time"
)

// TestManagerOutlook: far from the threshold it is known who would be next, and after an eviction
// who was. Nothing is done for it.
func TestManagerOutlook(t *testing.T) {
	bubble(t, func(n *node) {
		order := func(o Outlook) []string {
			names := make([]string, 0, len(o.Order))
			for _, c := range o.Order {
				names = append(names, c.Name+"("+string(c.Skip)+")")
			}
			return names
		}
		m := n.started(hardOnly)
		if o, err := m.Outlook(); err != nil || len(o.Order) > 0 || o.Hard != hardOnly.Hard {
			n.t.Errorf("%+v, %v before the first poll", o, err)
		}
		n.set(func() { n.pod("greedy").containers[0].uses = 100 * mi })
		n.run(m, time.Second)
		o, err := m.Outlook()
		if want := []string{"greedy()", "critical(node-critical)", "modest()"}; err != nil || !slices.Equal(order(o), want) {
			n.t.Errorf("%q, %v; want %q", order(o), err, want)
		}
		n.expect()
		n.set(func() { n.pod("greedy").containers[0].uses = 400 * mi })
		n.run(m, 10*time.Second)
		o, err = m.Outlook()
		if want := []string{"critical(node-critical)", "modest()"}; err != nil || !slices.Equal(order(o), want) {
			n.t.Errorf("%q, %v; want %q", order(o), err, want)
		}
		if len(o.Open) > 0 || len(o.Last) != 1 || o.Last[0].Name != "greedy" {
			n.t.Errorf("%+v", o)
		}
	})
}

// TestManagerOutlookUnreadable: a pod that cannot be read costs no other pod its place.
func TestManagerOutlookUnreadable(t *testing.T) {
	bubble(t, func(n *node) {
		m := n.started(hardOnly)
		n.set(func() { n.pod("greedy").containers[0].uses = 100 * mi })
		n.run(m, time.Second)
		n.files(n.pod("modest").Cgroup, map[string]string{"memory.current": "twenty characters\n   "})
		o, err := m.Outlook()
		if err == nil || len(o.Order) != 3 || o.Order[0].Name != "modest" || o.Order[0].Measured {
			n.t.Errorf("%+v, %v", o, err)
		}
	})
}
