package evict

import "time"

// nodeKernel counts as the kernel does at the partition's limit. It counts an oom at every
// allocation that finds nothing to reclaim, before it knows whether a process is to be killed
// (mem_cgroup_oom, mm/memcontrol.c).
type nodeKernel struct {
	// ooms is oom of memory.events.local, kills oom_kill of memory.events.
	ooms, kills int
	// changed reports a change of memory.events.local, as poll does.
	changed chan struct{}
}

func newNodeKernel() nodeKernel { return nodeKernel{changed: make(chan struct{}, 1)} }

// countOOM counts an allocation at the limit.
func (n *node) countOOM() {
	n.kernel.ooms++
	n.writeCounts()
	n.wake()
}

func (n *node) writeCounts() {
	if !n.has(n.path(partition, "memory.events")) {
		return // the partition is gone
	}
	n.files(partition, map[string]string{
		"memory.events": oomEvents(n.kernel.ooms, n.kernel.kills), "memory.events.local": oomEvents(n.kernel.ooms, 0),
	})
}

// wake reports the changed counts.
func (n *node) wake() {
	select {
	case n.kernel.changed <- struct{}{}:
	default:
	}
}

// strains makes the partition stay at its limit until a killed container has ended: all that time
// every allocation of any pod counts an oom.
func (n *node) strains(c *nodeContainer, takes time.Duration) {
	if c.dying {
		return
	}
	c.dying = true
	n.countOOM()
	const allocations = 5
	for i := range allocations {
		time.AfterFunc(takes*time.Duration(i+1)/(allocations+1), func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			if c.dying {
				n.countOOM()
			}
		})
	}
}
