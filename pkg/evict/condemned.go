package evict

import (
	"sync"

	"node-partition.io/node-partition/internal/cgroups"
)

// condemned counts the processes that the kernel has killed for the program (condemn). They are
// part of an eviction, and no kill at a limit that a user has set. Its methods may be called from
// any goroutine.
type condemned struct {
	mu     sync.Mutex
	counts map[string]kernelCount
	// ended is the sum over cgroups that are gone.
	ended uint64
}

// kernelCount holds the kernel's count of kills in a cgroup: before the first condemn, and at the
// last reading.
type kernelCount struct{ before, last uint64 }

// add begins to count in a cgroup, unless it has begun before.
func (c *condemned) add(cgroups cgroups.FS, cgroup string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.counts[cgroup]; known {
		return
	}
	killed, err := cgroups.Kills(cgroup)
	if err != nil {
		return
	}
	if c.counts == nil {
		c.counts = map[string]kernelCount{}
	}
	c.counts[cgroup] = kernelCount{before: killed, last: killed}
}

// total returns the number of processes that the kernel has killed for the program in this run.
func (c *condemned) total(cgroups cgroups.FS) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := uint64(0)
	for cgroup, count := range c.counts {
		killed, err := cgroups.Kills(cgroup)
		if err != nil { // it is gone
			//guard: a condemned cgroup that is gone is still counted
			c.ended += count.last - count.before
			delete(c.counts, cgroup)
			continue
		}
		count.last = max(killed, count.last)
		c.counts[cgroup] = count
		sum += count.last - count.before
	}
	return c.ended + sum
}
