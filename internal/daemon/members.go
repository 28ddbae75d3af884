package daemon

import (
	"node-partition.io/node-partition/internal/daemon/metrics"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/sizing"
)

// placement returns where the pods of a partition are by the last reconcile, and false before the
// first.
func (m *monitor) placement(partition partition.Name) (node.MemberPlaces, bool) {
	report := m.table.Report()
	if report.Time.IsZero() {
		return node.MemberPlaces{}, false
	}
	known, _ := m.kubelet.Pods()
	return node.MemberPlacesOf(
		partition, report.Pods, m.table.Pods(), known, node.MemoryCapacity(m.options.Node.Root),
	), true
}

// membersMemory returns the function that reads the memory of a partition's members for the
// metrics.
func (m *monitor) membersMemory() func(partition.Name) (metrics.Members, bool) {
	warn := m.complaints("a scrape could not read a pod that waits for its next start")
	return func(partition partition.Name) (metrics.Members, bool) {
		placed, known := m.placement(partition)
		if !known {
			return metrics.Members{}, false
		}
		members := metrics.Members{
			RequestBytes: placed.RequestBytes, WaitingBytes: placed.Outside(m.options.Node.Cgroups, warn) + placed.LeftBytes,
		}
		if a := m.sizes.advice(partition); a.Length() >= sizing.LeastLength {
			members.RecommendedBytes, members.Measured = a.LimitBytes, a.Length()
		}
		return members, true
	}
}
