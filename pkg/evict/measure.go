package evict

import (
	"errors"
	"io/fs"
	"slices"

	"nodepartition/internal/cgroupfs"
)

// Measure returns the pods with figures. It leaves out those whose cgroup is gone, and those that
// have neither processes nor memory. It calls warn for those that cannot be read.
func Measure(cgroups cgroupfs.FS, pods []Pod, warn func(error)) []Pod {
	pods = slices.Clone(pods)
	n := 0
	for _, p := range pods {
		if populated, err := cgroups.Populated(p.Cgroup); err == nil && !populated {
			p.Empty = true
		}
		reading, err := cgroups.Memory(p.Cgroup)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			warn(err) // a pod without figures goes first, as with the kubelet
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

// measured returns the pods of the partition with figures.
func (m *Manager) measured() []Pod {
	pods := Measure(m.Cgroups, m.Pods(), m.warnings.warn)
	for i := range pods {
		pods[i].Evicted = m.executor.knows(pods[i].UID)
	}
	return pods
}
