package budget

import "k8s.io/utils/cpuset"

// split divides Node Allocatable between the partition and user pods. By KEP-5894 user pods get
// capacity - kubeReserved - systemReserved - memoryLimit - evictionThreshold, which is Node
// Allocatable less memoryLimit. The kubelet does not subtract memoryLimit from Node Allocatable, so
// the scheduler does not know the remainder.
//
// The KEP calls the partition's CPUs dedicated. Those of reservedSystemCPUs are no part of Node
// Allocatable already; the others reduce the remainder. A partition without a cpuset has no CPUs of
// its own.
func split(allocatable Resources, p *Partition, reserved cpuset.CPUSet) (partition, remainder Resources) {
	if p == nil {
		return Resources{}, allocatable
	}
	partition = Resources{MilliCPU: milli(p.CPUs), MemoryBytes: p.MemoryLimit}
	remainder = allocatable
	remainder.MilliCPU = max(0, allocatable.MilliCPU-milli(p.CPUs.Difference(reserved)))
	remainder.MemoryBytes = max(0, allocatable.MemoryBytes-p.MemoryLimit)
	return partition, remainder
}

// milli returns a number of CPUs in thousandths.
func milli(cpus cpuset.CPUSet) int64 { return int64(cpus.Size()) * 1000 }

// promised returns the memory of the partition that the scheduler also promises to user pods. It
// subtracts the requests of the members from Node Allocatable, and nothing for the rest of
// memoryLimit, up to which the members may grow.
func promised(p *Partition, members *Members) int64 {
	if p == nil {
		return 0
	}
	if members == nil {
		return p.MemoryLimit
	}
	return max(0, p.MemoryLimit-members.MemoryRequestBytes)
}
