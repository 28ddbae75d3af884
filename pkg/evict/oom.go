package evict

import "time"

// countKills tells of processes that the kernel has killed.
func (m *Manager) countKills() {
	killed, atLimit, err := m.Cgroups.OOMEvents(m.Slice)
	if err != nil {
		return // gone, which the next look sees
	}
	if m.oom.known && atLimit > m.oom.atLimit {
		m.oom.at = time.Now()
	}
	if m.oom.known && killed > m.oom.killed {
		limit := AtPod
		if time.Since(m.oom.at) < longest { // the limit counts first (mem_cgroup_oom), and may have been all that the last look saw
			limit = AtPartition
		}
		m.Observer.KernelKilled(limit, killed-m.oom.killed)
		m.Journal.KernelKilled(limit, killed-m.oom.killed)
	}
	m.oom.known, m.oom.killed, m.oom.atLimit = true, killed, atLimit
}
