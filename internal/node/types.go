package node

import "node-partition.io/node-partition/internal/partition"

// Types lists the workload types whose pods are members of a partition.
func (f Followed) Types(of partition.Name) []string {
	var types []string
	for _, w := range f.Workloads {
		if w.Partition == of {
			types = append(types, w.Type)
		}
	}
	return types
}

// Advertised lists the workload types whose resource is to be on the Node.
func (f Followed) Advertised() []string {
	var types []string
	for _, w := range f.Workloads {
		if w.Advertise {
			types = append(types, w.Type)
		}
	}
	return types
}
