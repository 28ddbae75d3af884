package budget

import "k8s.io/utils/cpuset"

// Pools divides the CPUs of a node. Those of the partitions are in Budget.Partitions.
type Pools struct {
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

// pools returns the pools of all and adds those of the partitions.
func pools(all, reserved cpuset.CPUSet, of []Partition) Pools {
	shared, others := all.Difference(reserved), all
	for _, p := range of {
		if p.Exclusive {
			others = others.Difference(p.CPUs)
		}
	}
	for i := range of {
		cpus := of[i].CPUs
		if cpus.IsEmpty() {
			cpus = others
		} else {
			shared = shared.Difference(cpus)
		}
		of[i].Pool = pool(cpus)
	}
	return Pools{Reserved: pool(reserved), Shared: pool(shared)}
}

func pool(cpus cpuset.CPUSet) Pool { return Pool{CPUs: cpus.String(), Count: cpus.Size()} }
