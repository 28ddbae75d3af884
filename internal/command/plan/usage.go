package plan

import (
	"node-partition.io/node-partition/internal/budget"
	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
)

// Usage is the memory that a slice uses, in bytes.
type Usage struct {
	Slice string `json:"slice"`
	// MemoryBytes is memory.current, with page cache, and WorkingSetBytes without inactive page cache.
	MemoryBytes     uint64 `json:"memoryBytes"`
	WorkingSetBytes uint64 `json:"workingSetBytes"`
	// PeakBytes is memory.peak: the largest memory.current since the slice was started. It is absent
	// before Linux 5.19.
	PeakBytes *uint64 `json:"peakBytes,omitempty"`
}

// services is the slice of the services of the node.
const services = "system.slice"

// readUsage reads the slices of the budget. A slice that is not there, or whose memory is not
// accounted, is left out.
func readUsage(root cgroups.FS, partitions []budget.Partition) []Usage {
	var list []Usage
	for _, slice := range budgeted(partitions) {
		path := partition.CgroupPath(slice)
		usage, err := root.Usage(path)
		if err != nil || !usage.HasMemory {
			continue
		}
		u := Usage{Slice: slice, MemoryBytes: usage.MemoryCurrent, WorkingSetBytes: usage.WorkingSet()}
		if peak, err := root.MemoryPeak(path); err == nil {
			u.PeakBytes = &peak
		}
		list = append(list, u)
	}
	return list
}

// budgeted lists the slices of the budget: of all pods, of the partitions, and of the services of
// the node.
func budgeted(partitions []budget.Partition) []string {
	all := []string{partition.Default.Slice(), partition.First.Slice()} // which may be a kubelet's own
	for _, p := range partitions {
		if p.Name != partition.First {
			all = append(all, p.Name.Slice())
		}
	}
	return append(all, services)
}

// hostBytes returns the working set of the services of the node, 0 if it is not known.
func hostBytes(usage []Usage) int64 {
	for _, u := range usage {
		if u.Slice == services {
			return int64(u.WorkingSetBytes)
		}
	}
	return 0
}
