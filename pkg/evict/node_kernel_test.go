package evict

import "time"

// nodeKernel counts as the kernel does at the partition's limit. It counts an oom at every
// allocation that finds nothing to reclaim, before it knows whether a process is to be killed
// (mem_cgroup_oom, mm/memcontrol.c).
type nodeKernel struct {
	// ooms is oom of memory.events.local, kills oom_kill of memory.events.
	ooms, kills int
	// hostile means that it selects another process while one ends that it has not selected itself: it
	// no longer sees the size of that (exit_mm before exit_mmap, kernel/exit.c).
	hostile bool
	// killed lists the containers that it has selected at the partition's limit, condemned the
	// cgroups whose own limit was lowered.
	killed, condemned []string
	// spares counts allocations at the limit that find a process that is ending, and kill none.
	spares int
}

// flush writes the usage into the files, if they are behind.
func (n *node) flush() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stale {
		n.refresh()
	}
}

// countOOM counts an allocation at the limit.
func (n *node) countOOM() {
	n.kernel.ooms++
	n.writeCounts()
}

func (n *node) writeCounts() {
	if !n.has(n.path(n.slice, "memory.events")) {
		return // the partition is gone
	}
	n.files(n.slice, map[string]string{
		"memory.events": oomEvents(n.kernel.ooms, n.kernel.kills), "memory.events.local": oomEvents(n.kernel.ooms, 0),
	})
}

// leaks has the first container of a pod allocate memory some times, with a pause after each, as
// long as it runs.
func (n *node) leaks(m *Manager, pod string, times int, bytes uint64, pause time.Duration) {
	c := n.pod(pod).containers[0]
	for range times {
		n.set(func() {
			if c.running && !c.dying {
				n.allocate(&c.uses, bytes)
			}
		})
		n.run(m, pause)
	}
}

// allocate adds as much memory to what a pod uses, unless the partition is at its limit and nothing
// can be reclaimed. The files follow before the program reads them: between two polls a pod may
// allocate a hundred times.
func (n *node) allocate(what *uint64, bytes uint64) {
	n.stale = true
	over := int64(n.sum()+bytes) - int64(n.limit)
	for _, q := range n.pods {
		for i := range 2 { // page cache, and not the slabs of open files
			freed := min(q.cache[i], uint64(max(0, over)))
			q.cache[i] -= freed
			over -= int64(freed)
		}
	}
	if over <= 0 {
		*what += bytes
		return
	}
	n.countOOM()
	n.killLargest()
}

// killLargest kills the container with the most memory, by oom_badness of mm/oom_kill.c, unless one
// is ending.
func (n *node) killLargest() {
	if n.kernel.spares > 0 {
		n.kernel.spares--
		return
	}
	var victim *nodeContainer
	points := int64(0)
	for _, p := range n.pods {
		for _, c := range p.containers {
			if c.marked || c.dying && !n.kernel.hostile {
				return
			}
			if c.dying {
				continue
			}
			if badness := int64(c.uses) + p.scoreAdj*mi; c.running && badness > points {
				victim, points = c, badness // the limit has a thousand MiB
			}
		}
	}
	if victim != nil {
		n.kernel.kills++
		n.kernel.killed = append(n.kernel.killed, victim.id)
		n.exit(victim.cgroup, n.ends)
		victim.marked = victim.running
	}
}

// condemn counts a container that the kernel has selected because its own limit was lowered.
func (n *node) condemn(cgroup string) {
	n.kernel.kills++
	n.kernel.condemned = append(n.kernel.condemned, cgroup)
	n.writeCounts()
	n.files(cgroup, map[string]string{"memory.events": oomEvents(1, 1), "memory.max": number(mi)})
	for _, p := range n.pods {
		for _, c := range p.containers {
			if c.cgroup == cgroup {
				c.marked = c.running
			}
		}
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
