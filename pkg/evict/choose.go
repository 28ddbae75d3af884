package evict

import (
	"maps"
	"slices"
	"time"
)

// choose decides. A pod without containers to stop may still hold memory: its containers may have
// ended since the list of pods was made. What they held until then is back, so the memory is read
// again: once for all pods before the first with a container to stop. A container that did not end
// when it was just signalled will not end now either.
func (m *Manager) choose(s *Situation) Decision {
	for {
		d := Decide(*s)
		if d.Victim == nil {
			return d
		}
		if d.Victim.Empty {
			// Only the kubelet has listed this pod. A container of it that has ended has no cgroup to check.
			d.Victim.Containers = slices.DeleteFunc(
				slices.Clone(d.Victim.Containers),
				func(c Container) bool { return c.Cgroup == "" },
			)
			return d
		}
		if d.Victim.Containers = m.stoppable(*d.Victim); len(d.Victim.Containers) > 0 {
			return d
		}
		s.Pods = m.readAgain(s.Pods, m.unstoppable(d))
		//guard: a pod that ends after the reading is not evicted for what it used
		if err := m.read(s); err != nil {
			m.warnings.warn(err)
		}
		s.Ownerless = Ownerless(s.Memory.Used(), s.Pods)
	}
}

// unstoppable returns the cgroups of the victim, which has no containers to stop, and of the pods
// after it up to the first that has some, or is known to have none.
func (m *Manager) unstoppable(d Decision) map[string]bool {
	cgroups := map[string]bool{d.Victim.Cgroup: true}
	for i := range d.Order {
		switch p := &d.Order[i]; {
		case p.Skip != "" || cgroups[p.Cgroup]:
		case p.Empty || len(m.stoppable(p.Pod)) > 0:
			return cgroups
		default:
			cgroups[p.Cgroup] = true
		}
	}
	return cgroups
}

// readAgain returns the pods with the present usage of those that have no containers to stop.
func (m *Manager) readAgain(pods []Pod, unstoppable map[string]bool) []Pod {
	left := pods[:0]
	for _, p := range pods {
		if !unstoppable[p.Cgroup] {
			left = append(left, p)
			continue
		}
		p.Empty = true
		if now := Measure(m.Cgroups, []Pod{p}, m.warnings.warn); len(now) > 0 && now[0].Measured {
			left = append(left, now[0])
		} else if len(now) > 0 {
			left = append(left, p)
		}
	}
	return left
}

// stoppable returns the containers of a pod that are left to stop, including containers that were
// started since the list of pods was made.
func (m *Manager) stoppable(p Pod) []Container {
	known := map[string]Container{}
	for _, c := range p.Containers {
		known[c.ID] = c
	}
	list := slices.Clone(p.Containers)
	if scopes, err := m.Scopes(p.Cgroup); err != nil {
		m.warnings.warn(err)
	} else {
		list = list[:0]
		for _, id := range slices.Sorted(maps.Keys(scopes)) {
			c := known[id]
			c.ID, c.Cgroup = id, scopes[id]
			list = append(list, c)
		}
	}
	signalled := m.executor.signalled(p.UID, time.Now())
	list = slices.DeleteFunc(list, func(c Container) bool {
		if c.Cgroup == "" {
			return true // no cgroup was found
		}
		return signalled[c.Cgroup] || m.containers.empty(c.Cgroup)
	})
	for i := range list {
		reading, _ := m.Cgroups.Memory(list[i].Cgroup) // for the message only
		list[i].WorkingSet = reading.WorkingSet()
	}
	return list
}
