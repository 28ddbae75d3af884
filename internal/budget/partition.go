package budget

import "k8s.io/utils/cpuset"

// split divides Node Allocatable between the partitions and user pods. By KEP-5894 user pods get
// capacity - kubeReserved - systemReserved - memoryLimit - evictionThreshold, which is Node
// Allocatable less memoryLimit. The kubelet does not subtract memoryLimit from Node Allocatable, so
// the scheduler does not know the remainder.
//
// The KEP calls the partition's CPUs dedicated. Node Allocatable does not include
// reservedSystemCPUs; the partition's other CPUs reduce the remainder. A partition without a cpuset
// has no dedicated CPUs.
func split(allocatable Resources, of []Partition, reserved cpuset.CPUSet) (remainder Resources) {
	remainder = allocatable
	for i := range of {
		p := &of[i]
		p.Slice, p.MilliCPU = p.Name.Slice(), milli(p.CPUs)
		remainder.MilliCPU = max(0, remainder.MilliCPU-milli(p.CPUs.Difference(reserved)))
		remainder.MemoryBytes = max(0, remainder.MemoryBytes-p.MemoryBytes)
		reserved = reserved.Union(p.CPUs) // two partitions may share CPUs
	}
	return remainder
}

// milli returns a number of CPUs in thousandths.
func milli(cpus cpuset.CPUSet) int64 { return int64(cpus.Size()) * 1000 }

// promised returns the memory of the partitions that the scheduler also promises to user pods. It
// subtracts the requests of the members from Node Allocatable, and nothing for the rest of
// memoryLimit, up to which the members may grow.
func promised(partitions []Partition) int64 {
	var sum int64
	for _, p := range partitions {
		if p.Members == nil {
			sum += p.MemoryBytes
			continue
		}
		sum += max(0, p.MemoryBytes-p.Members.MemoryRequestBytes)
	}
	return sum
}
