package cgroups

// MemoryReading holds the six values from which the memory usage of a cgroup is computed, in bytes.
type MemoryReading struct {
	// Current is memory.current, and Max memory.max, Unlimited for none.
	Current, Max uint64
	// InactiveFile, ActiveFile and SlabReclaimable come from memory.stat. The kernel reclaims them
	// before it kills. It sums them up from per-CPU counts, and may leave out as much as 64 pages of
	// each CPU (memcg_vmstats_needs_flush, mm/memcontrol.c, since 6.8).
	InactiveFile, ActiveFile, SlabReclaimable uint64
	// Protected is the part of these three that memory.min keeps from being reclaimed.
	Protected uint64
}

// Used returns the bytes that the kernel cannot reclaim: usage without page cache and half of the
// reclaimable slabs, as far as no memory.min protects them. The kubelet counts active page cache
// and slabs as used, and so evicts a pod that reads the same files repeatedly. At the limit of a
// cgroup the kernel drops these pages before it kills (try_charge_memcg, mm/memcontrol.c). Half of
// the slabs counts as used, as in MemAvailable (si_mem_available, mm/show_mem.c): inodes and
// dentries stay as long as their files are open.
func (r MemoryReading) Used() uint64 {
	//guard: half of the slabs can be reclaimed
	return r.without(r.InactiveFile + r.ActiveFile + r.SlabReclaimable/2)
}

// UsedWithSlabs returns Used if none of the slabs can be reclaimed.
func (r MemoryReading) UsedWithSlabs() uint64 { return r.without(r.InactiveFile + r.ActiveFile) }

// without returns the usage without memory that can be reclaimed unless it is protected. The values
// are of different moments, so that reclaimable may be more than the usage.
func (r MemoryReading) without(reclaimable uint64) uint64 {
	return r.Current - min(reclaimable-min(r.Protected, reclaimable), r.Current)
}

// below returns the part of the reclaimable memory that a memory.min of so many bytes protects. The
// kernel skips a cgroup that uses no more than its memory.min, even where it kills otherwise
// (shrink_node_memcgs, mm/vmscan.c, 6.12). A cgroup that uses more is reclaimed down to it. Memory
// below memory.low is reclaimed before the kernel kills (memcg_low_reclaim there), and so counts as
// any other.
func (r MemoryReading) below(setting uint64) uint64 {
	used := r.Used()
	return min(r.Current-used, setting-min(used, setting))
}

// WorkingSet returns the usage that the kubelet evicts by, in bytes: usage without inactive page
// cache, never negative (setMemoryStats of cAdvisor, container/libcontainer/handler.go).
func (r MemoryReading) WorkingSet() uint64 { return workingSet(r.Current, r.InactiveFile) }

// Available returns the bytes that may still be used below limit, which is in bytes too: 0 if Used
// exceeds it.
func (r MemoryReading) Available(limit uint64) uint64 { return limit - min(r.Used(), limit) }

func workingSet(current, inactiveFile uint64) uint64 { return current - min(inactiveFile, current) }
