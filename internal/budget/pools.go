package budget

import "k8s.io/utils/cpuset"

// Pools divides the CPUs of a node.
type Pools struct {
	// Partition holds the CPUs of the partition: all without a cpuset, none without a partition.
	Partition Pool `json:"partition"`
	// Reserved holds reservedSystemCPUs. The partition's CPUs should be among them.
	Reserved Pool `json:"reserved"`
	// Shared holds the CPUs that are in neither list. The static CPU manager assigns them to
	// containers exclusively.
	Shared Pool `json:"shared"`
}

// Pool is a set of CPUs.
type Pool struct {
	// CPUs is in the list format of cpuset(7).
	CPUs  string `json:"cpus"`
	Count int    `json:"count"`
}

func pools(all, reserved cpuset.CPUSet, p *Partition) Pools {
	partition, shared := cpuset.New(), all.Difference(reserved)
	switch {
	case p == nil:
	case p.CPUs.IsEmpty():
		partition = all
	default:
		partition, shared = p.CPUs, shared.Difference(p.CPUs)
	}
	return Pools{Partition: pool(partition), Reserved: pool(reserved), Shared: pool(shared)}
}

func pool(cpus cpuset.CPUSet) Pool { return Pool{CPUs: cpus.String(), Count: cpus.Size()} }
