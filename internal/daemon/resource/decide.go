package resource

import (
	"slices"

	"nodepartition/internal/kubeapi"
	"nodepartition/internal/node"
)

// change holds what to write on the Node.
type change struct {
	// cores holds the values to write by type, nil for a resource to remove. It is empty if the
	// Node is as it should be.
	cores map[string]*int64
	// before holds what is known if the change is not written, and after what is known if it is.
	before, after node.Resources
}

// decide compares a Node, nil if there is none, with the types that are to be advertised with a
// value, in thousandths of a CPU. known holds what was written and seen so far. value is 0 if it is
// not known.
//
// A value is not lowered on the Node on which it was written: a kubelet that restarts compares the
// requests of running pods with it, and fails those that do not fit. For the same reason a resource
// is removed and never set to zero: the kubelet ignores a request for a resource that its Node does
// not have (removeMissingExtendedResources, pkg/kubelet/lifecycle/predicate.go, v1.37.0).
//
// A resource that was not written by this program is not removed.
func decide(types []string, value int64, known node.Resources, n *kubeapi.Node) change {
	if n == nil {
		return change{} // its resources are gone with it
	}
	written := known.Written
	//guard: a resource on another Node of the name is not ours
	if n.UID != known.Node {
		written = map[string]int64{}
		for _, one := range n.Ours { // an earlier boot has written it
			written[one] = 0
		}
	}
	c := change{cores: map[string]*int64{}}
	seen := map[string]int64{}
	c.before = node.Resources{Node: n.UID, Written: map[string]int64{}, Seen: seen}
	c.after = node.Resources{Node: n.UID, Written: map[string]int64{}, Seen: seen}
	for _, one := range types {
		last, ours := written[one]
		has, is := n.Cores[one]
		if is {
			seen[one] = has
		}
		//guard: a resource is not lowered while the node runs
		want := max(value, last)
		if ours {
			c.before.Written[one], c.after.Written[one] = last, want
		}
		//guard: a resource is not set to zero
		if want > 0 && (!is || has != want) {
			c.cores[one], c.after.Written[one] = &want, want
		}
	}
	for one, last := range written {
		has, is := n.Cores[one]
		if !is || slices.Contains(types, one) {
			continue
		}
		c.cores[one], seen[one] = nil, has
		c.before.Written[one], c.after.Written[one] = last, last
	}
	return c
}
