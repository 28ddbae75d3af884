package evict

import "nodepartition/internal/cgroupfs"

// Memory is the memory of the partition, in bytes.
type Memory struct {
	// Current is memory.current, Max memory.max (cgroupfs.Unlimited for none).
	Current, Max uint64
	// InactiveFile, ActiveFile and SlabReclaimable are those of memory.stat: what the kernel takes back before it kills.
	InactiveFile, ActiveFile, SlabReclaimable uint64
}

// WorkingSet is what the kubelet goes by: usage without inactive page cache.
func (m Memory) WorkingSet() uint64 { return m.Current - min(m.InactiveFile, m.Current) }

// Used is what the kernel cannot take back. The kubelet counts active page cache and slabs as used, so that a pod that reads the
// same files again and again is evicted although the kernel would only have to drop pages; at the limit of a cgroup, which
// is all that we guard, it drops them (try_charge_memcg, mm/memcontrol.c). Of slabs only half counts as what can be freed, as in MemAvailable
// (si_mem_available, mm/show_mem.c): inodes and dentries of open files stand there too, and stay as long as the files are open.
func (m Memory) Used() uint64 {
	return m.Current - min(m.InactiveFile+m.ActiveFile+m.SlabReclaimable/2, m.Current)
}

// noLimit is memory.max where there is none (cgroupfs.Unlimited).
const noLimit = cgroupfs.Unlimited

// available is what is left below limit.
func available(limit, used uint64) uint64 { return limit - min(used, limit) }
