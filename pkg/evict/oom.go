package evict

import "time"

// kills has the counts of the kernel's kills that were last read.
type kills struct {
	known           bool
	killed, atLimit uint64
	// limitAt is when atLimit grew, and readAt when both were read.
	limitAt, readAt time.Time
}

// outOfMemory notifies of processes that the kernel has killed, and reports whether the partition's
// own limit could not be kept since it last did. It reads the counts where the kernel has reported
// a change, and else once in statInterval.
func (w *watch) outOfMemory(now time.Time) (atPartition bool) {
	if !w.reported && now.Sub(w.kills.readAt) < statInterval {
		return false
	}
	killed, atLimit, err := w.Cgroups.OOMEvents(w.Slice)
	if err != nil {
		return false // gone, which the next look sees
	}
	k := &w.kills
	k.readAt = time.Now()
	if k.known && atLimit > k.atLimit {
		k.limitAt, atPartition = time.Now(), true
	}
	if k.known && killed > k.killed {
		limit := AtPod
		if time.Since(k.limitAt) < 2*statInterval { // the limit counts first (mem_cgroup_oom), and may have been all that the last look saw
			limit = AtPartition
		}
		w.Events.KernelKilled(limit, killed-k.killed)
	}
	k.known, k.killed, k.atLimit = true, killed, atLimit
	return atPartition
}
