package evict

import "time"

// kills holds the last reading of the kernel's counts of kills.
type kills struct {
	known           bool
	killed, atLimit uint64
	// limitAt is the time at which atLimit grew, readAt the time of the last reading.
	limitAt, readAt time.Time
}

// outOfMemory reports whether the partition's own limit could not be kept since the last call, and
// notifies Events of processes that the kernel has killed. It reads the counts if the kernel has
// reported a change, and otherwise once in statInterval.
func (w *watch) outOfMemory(now time.Time) (atPartition bool) {
	if !w.reported && now.Sub(w.kills.readAt) < statInterval {
		return false
	}
	killed, atLimit, err := w.Cgroups.OOMEvents(w.Slice)
	if err != nil {
		return false // the cgroup is gone, which the next poll finds
	}
	k := &w.kills
	k.readAt = time.Now()
	if k.known && atLimit > k.atLimit {
		k.limitAt, atPartition = time.Now(), true
	}
	if k.known && killed > k.killed {
		limit := AtPod
		// The kernel counts the limit first (mem_cgroup_oom). The last poll may have seen only that.
		if time.Since(k.limitAt) < 2*statInterval {
			limit = AtPartition
		}
		w.Events.KernelKilled(limit, killed-k.killed)
	}
	k.known, k.killed, k.atLimit = true, killed, atLimit
	return atPartition
}
