package evict

import (
	"maps"
	"slices"
	"time"
)

// choose decides. A pod without containers to stop may still hold memory: its containers may have
// ended since the list of pods was made. What they held until then is back, so the memory is read
// again. A container that did not end when it was just signalled will not end now either.
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
		i := slices.IndexFunc(s.Pods, func(p Pod) bool { return p.Cgroup == d.Victim.Cgroup })
		s.Pods[i].Empty = true
		if now := Measure(m.Cgroups, s.Pods[i:i+1], m.warnings.warn); len(now) == 0 || now[0].Measured {
			s.Pods = slices.Replace(s.Pods, i, i+1, now...)
		}
		//guard: a pod that ends after the reading is not evicted for what it used
		if err := m.read(s); err != nil {
			m.warnings.warn(err)
		}
		s.Ownerless = Ownerless(s.Memory.Used(), s.Pods)
	}
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
	list = slices.DeleteFunc(list, func(c Container) bool { // of one without a cgroup none was found
		return c.Cgroup == "" || signalled[c.Cgroup] || m.containers.ended(c)
	})
	for i := range list {
		reading, _ := m.Cgroups.Memory(list[i].Cgroup) // for the message only
		list[i].WorkingSet = reading.WorkingSet()
	}
	return list
}
