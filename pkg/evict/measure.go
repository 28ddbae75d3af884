package evict

import (
	"errors"
	"io/fs"
	"slices"

	"node-partition.io/node-partition/internal/cgroups"
)

// Measure returns the pods with their usage. It drops pods whose cgroup is gone, and pods with
// neither processes nor memory. If a cgroup cannot be read, it calls warn and returns the pod with
// Measured false.
func Measure(cgroups cgroups.FS, pods []Pod, warn func(error)) []Pod {
	pods = slices.Clone(pods)
	n := 0
	for _, p := range pods {
		populated, err := cgroups.Populated(p.Cgroup)
		p.Empty = p.Empty || !populated && err == nil
		reading, err := cgroups.Memory(p.Cgroup)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			warn(err) // a pod without usage is evicted first, as by the kubelet
		}
		p.Usage, p.Measured = Usage{WorkingSet: reading.WorkingSet(), Used: reading.Used()}, err == nil
		if p.Empty && p.Usage.Used == 0 {
			continue
		}
		pods[n] = p
		n++
	}
	return pods[:n]
}

// measured returns the pods of the partition with their usage. A pod that cannot be read keeps its
// last usage. Without one it counts as using what it requests.
func (m *Manager) measured() []Pod {
	pods := Measure(m.Cgroups, m.Pods(), m.warnings.warn)
	usage := map[string]Usage{}
	for i := range pods {
		p := &pods[i]
		p.Evicted = m.executor.isEvicted(p.UID)
		if !p.Measured {
			last, known := m.usage[p.UID]
			if !known {
				last = Usage{WorkingSet: p.Request, Used: p.Request}
			}
			p.Usage, p.Measured = last, true
			if !known {
				continue // what it requests is no usage
			}
		}
		usage[p.UID] = p.Usage
	}
	m.mu.Lock()
	m.usage = usage
	m.mu.Unlock()
	return pods
}
