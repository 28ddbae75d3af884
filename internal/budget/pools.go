package budget

import (
	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/partition"
)

// Pools divides the CPUs of a node.
type Pools struct {
	// Partitions lists the CPUs of the partitions. It is empty, and not nil, without a partition.
	Partitions []PartitionPool `json:"partitions"`
	// Reserved holds reservedSystemCPUs. The partitions' CPUs should be among them.
	Reserved Pool `json:"reserved"`
	// Shared holds the CPUs that are in no other list. The static CPU manager assigns them to
	// containers exclusively.
	Shared Pool `json:"shared"`
}

// Pool is a set of CPUs.
type Pool struct {
	// CPUs is in the list format of cpuset(7).
	CPUs  string `json:"cpus"`
	Count int    `json:"count"`
}

// PartitionPool is the CPUs of a partition: without a cpuset all that are exclusive to no other.
type PartitionPool struct {
	Name  partition.Name `json:"name"`
	Slice string         `json:"slice"`
	Pool
}

func pools(all, reserved cpuset.CPUSet, of []Share) Pools {
	partitions := make([]PartitionPool, 0, len(of))
	shared, others := all.Difference(reserved), all
	for _, p := range of {
		if p.Exclusive {
			others = others.Difference(p.CPUs)
		}
	}
	for _, p := range of {
		cpus := p.CPUs
		if cpus.IsEmpty() {
			cpus = others
		} else {
			shared = shared.Difference(cpus)
		}
		partitions = append(partitions, PartitionPool{p.Name, p.Name.Slice(), pool(cpus)})
	}
	return Pools{Partitions: partitions, Reserved: pool(reserved), Shared: pool(shared)}
}

func pool(cpus cpuset.CPUSet) Pool { return Pool{CPUs: cpus.String(), Count: cpus.Size()} }
