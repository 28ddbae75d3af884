package evict

import "time"

// killFollows is the longest time from the kernel's count of the limit to its count of the kill. It
// counts the limit first (mem_cgroup_oom), and the kill may be counted only at the next reading.
const killFollows = 2 * statInterval

// kills holds the last reading of the kernel's counts of kills.
type kills struct {
	known           bool
	killed, atLimit uint64
	// condemned is the number of processes that were condemned before the first reading.
	condemned uint64
	// limitAt is the time at which atLimit grew.
	limitAt time.Time
}

// count returns the growth of the kernel's counts since the last reading, and notifies Events of
// processes that the kernel has killed. It reads them at each poll: a kill that is read late would
// count as one of now, for whose memory the next eviction waits. The first reading of a run is the
// base: what was counted before it proves nothing.
func (w *watch) count() (grew counted) {
	killed, atLimit, err := w.meter.OOMEvents()
	if err != nil {
		return counted{} // the cgroup is gone, which the next poll finds
	}
	k := &w.kills
	condemned := w.condemned()
	if !k.known {
		k.condemned = condemned
	}
	//guard: what the kernel has killed for an eviction is no kill at a limit
	killed -= min(killed, condemned-k.condemned)
	//guard: a kill that was the program's own is counted once
	killed = max(killed, k.killed) // a process was condemned between the two readings
	if k.known && atLimit > k.atLimit {
		k.limitAt, grew.oom = time.Now(), true
	}
	if k.known && killed > k.killed {
		limit := AtPod
		if time.Since(k.limitAt) < killFollows {
			limit, grew.killed = AtPartition, true
		}
		w.Events.KernelKilled(limit, killed-k.killed)
	}
	k.known, k.killed, k.atLimit = true, killed, atLimit
	return grew
}
