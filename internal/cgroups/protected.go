package cgroups

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
)

// reservesInterval bounds the age of the list of slices with memory.min. The kubelet sets it when
// it creates or resizes a pod, and the page cache that it protects grows after that.
const reservesInterval = 5 * time.Second

// reserve is the slice of a pod whose memory the kernel reclaims down to min bytes only.
type reserve struct {
	*MemoryMeter
	min uint64
}

// reserves lists the slices below a cgroup that have memory.min, without those that have slices
// themselves. Each has no more than those above it. The own memory.min of the cgroup at whose limit
// the kernel reclaims has no part in that (mem_cgroup_calculate_protection, mm/memcontrol.c, 6.12).
// leaf means that no slice is below the cgroup. The caller closes the meters, with an error too.
func (f FS) reserves(cgroup string, most uint64) (found []reserve, leaf bool, err error) {
	names, err := f.Children(cgroup)
	if err != nil {
		return nil, false, err
	}
	leaf = true
	for _, name := range names {
		if !strings.HasSuffix(name, ".slice") {
			continue
		}
		leaf = false
		path := filepath.Join(cgroup, name)
		setting, err := f.minimum(path)
		if err != nil {
			return found, leaf, err
		}
		//guard: a cgroup has no more memory.min than those above it
		if setting = min(setting, most); setting == 0 {
			continue
		}
		below, isPod, err := f.reserves(path, setting)
		found = append(found, below...)
		if err != nil {
			return found, leaf, err
		}
		if !isPod {
			continue
		}
		meter, err := f.MemoryMeter(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return found, leaf, err
		}
		found = append(found, reserve{meter, setting})
	}
	return found, leaf, nil
}

// minimum reads memory.min in bytes, 0 if the cgroup is gone or the memory controller is off.
func (f FS) minimum(cgroup string) (uint64, error) {
	setting, err := f.number(cgroup, "memory.min")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return setting, err
}

// closeReserves closes the files of the slices with memory.min.
func (m *MemoryMeter) closeReserves() {
	for _, r := range m.reserves {
		r.Close()
	}
	m.reserves = nil
}

// protected returns the sum of what memory.min protects in the slices below, in bytes. It lists the
// slices again after reservesInterval.
func (m *MemoryMeter) protected() (uint64, error) {
	if now := time.Now(); m.listedAt.IsZero() || now.Sub(m.listedAt) >= reservesInterval {
		//guard: the files of slices that lost memory.min are closed
		m.closeReserves()
		var err error
		m.reserves, _, err = m.root.reserves(m.cgroup, Unlimited)
		if err != nil {
			m.closeReserves()
			return 0, err
		}
		m.listedAt = now
	}
	sum := uint64(0)
	for _, r := range m.reserves {
		reading, err := r.read(func(uint64) bool { return false })
		if errors.Is(err, fs.ErrNotExist) {
			continue // the pod has ended
		}
		if err != nil {
			return 0, err
		}
		sum = plus(sum, reading.below(r.min))
	}
	return sum, nil
}
