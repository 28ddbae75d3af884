package plan

import (
	"context"
	"slices"

	"nodepartition/internal/budget"
	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/monitor/node"
	"nodepartition/internal/unitname"
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
func readUsage(root cgroupfs.FS) []Usage {
	var list []Usage
	for _, slice := range []string{unitname.Default.Slice(), unitname.System.Slice(), services} {
		path := unitname.CgroupPath(slice)
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

// hostBytes returns the working set of the services of the node, 0 if it is not known.
func hostBytes(usage []Usage) int64 {
	for _, u := range usage {
		if u.Slice == services {
			return int64(u.WorkingSetBytes)
		}
	}
	return 0
}

// readMembers returns sums over the pods of namespaces. It returns nil if the kubelet does not
// serve its Pods API.
func readMembers(ctx context.Context, socket string, namespaces []string) *budget.Members {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pods, known := node.ListPods(ctx, socket).Pods()
	if !known {
		return nil
	}
	var m budget.Members
	for _, pod := range pods {
		if pod.Ended || !slices.Contains(namespaces, pod.Namespace) {
			continue
		}
		m.Pods++
		m.MemoryRequestBytes += pod.MemoryRequest
		m.MemoryLimitBytes += pod.MemoryLimit
		if pod.MemoryLimit == 0 {
			m.Unlimited++
		}
	}
	return &m
}
