package evict

import "time"

// countKills tells of processes that the kernel has killed, and reports whether the partition's own limit could not be kept since it last did.
func (m *Manager) countKills() (atPartition bool) {
	killed, atLimit, err := m.Cgroups.OOMEvents(m.Slice)
	if err != nil {
		return false // gone, which the next look sees
	}
	m.oom.counted = time.Now()
	if m.oom.known && atLimit > m.oom.atLimit {
		m.oom.at, atPartition = time.Now(), true
	}
	if m.oom.known && killed > m.oom.killed {
		limit := AtPod
		if time.Since(m.oom.at) < 2*statInterval { // the limit counts first (mem_cgroup_oom), and may have been all that the last look saw
			limit = AtPartition
		}
		m.Observer.KernelKilled(limit, killed-m.oom.killed)
		m.Journal.KernelKilled(limit, killed-m.oom.killed)
	}
	m.oom.known, m.oom.killed, m.oom.atLimit = true, killed, atLimit
	return atPartition
}
