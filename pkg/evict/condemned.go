package evict

import "nodepartition/internal/cgroupfs"

// condemned counts the processes that the kernel has killed for the program (condemn). They are
// part of an eviction, and no kill at a limit that a user has set. Only the goroutine in Run uses
// it.
type condemned struct {
	// before and last hold the kernel's counts of each cgroup: at the first kill and at the last
	// reading.
	before, last map[string]uint64
	// ended is the sum over cgroups that are gone.
	ended uint64
}

// add begins to count in a cgroup, unless it has begun before.
func (c *condemned) add(cgroups cgroupfs.FS, cgroup string) {
	if _, known := c.before[cgroup]; known {
		return
	}
	killed, _, err := cgroups.OOMEvents(cgroup)
	if err != nil {
		return
	}
	if c.before == nil {
		c.before, c.last = map[string]uint64{}, map[string]uint64{}
	}
	c.before[cgroup], c.last[cgroup] = killed, killed
}

// total returns the number of processes that the kernel has killed for the program in this run.
func (c *condemned) total(cgroups cgroupfs.FS) uint64 {
	sum := uint64(0)
	for cgroup, before := range c.before {
		killed, _, err := cgroups.OOMEvents(cgroup)
		if err != nil { // it is gone
			c.ended += c.last[cgroup] - before
			delete(c.before, cgroup)
			delete(c.last, cgroup)
			continue
		}
		c.last[cgroup] = max(killed, c.last[cgroup])
		sum += c.last[cgroup] - before
	}
	return c.ended + sum
}
