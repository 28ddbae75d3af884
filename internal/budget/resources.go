package budget

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Resources is an amount of each resource of a node.
type Resources struct {
	// MilliCPU is in thousandths of a CPU.
	MilliCPU    int64 `json:"milliCPU"`
	MemoryBytes int64 `json:"memoryBytes"`
	// StorageBytes is ephemeral storage. It is nil where it does not apply: for the partition, and for
	// a node whose storage is not known or not counted.
	StorageBytes *int64 `json:"storageBytes,omitempty"`
}

// resources returns the amounts of a list. The list of the capacity decides whether storage
// applies.
func resources(list, capacity v1.ResourceList) Resources {
	cpu, memory := list[v1.ResourceCPU], list[v1.ResourceMemory]
	r := Resources{MilliCPU: cpu.MilliValue(), MemoryBytes: memory.Value()}
	if _, ok := capacity[v1.ResourceEphemeralStorage]; ok {
		storage := list[v1.ResourceEphemeralStorage]
		bytes := storage.Value()
		r.StorageBytes = &bytes
	}
	return r
}

// List returns a capacity of CPUs in thousandths and of memory in bytes as a resource list.
func List(milliCPU, memoryBytes int64) v1.ResourceList {
	return v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(milliCPU, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(memoryBytes, resource.BinarySI),
	}
}

// notNegative returns q, or 0 if it is below.
func notNegative(q resource.Quantity) resource.Quantity {
	if q.Sign() < 0 {
		q.Set(0)
	}
	return q
}
