package budget

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/text"
)

// Input holds what a budget is computed from.
type Input struct {
	Kubelet Kubelet
	// IgnoreEviction is the kubelet's flag --experimental-allocatable-ignore-eviction: Node
	// Allocatable then includes the eviction threshold.
	IgnoreEviction bool
	// Capacity has cpu, memory, hugepages-SIZE, and ephemeral-storage where it is known, as the
	// kubelet reports them.
	Capacity v1.ResourceList
	// CPUs holds the CPUs of the node. Their number is the capacity of CPUs.
	CPUs cpuset.CPUSet
	// Partitions lists the partitions to make.
	Partitions []Partition
	// HostBytes is the working set of the services of the node (system.slice), 0 where it is not
	// known.
	HostBytes int64
}

// Partition is a partition in the budget. Compute adds Slice, MilliCPU and Pool.
type Partition struct {
	Name  partition.Name `json:"name"`
	Slice string         `json:"slice"`
	// Resources has its share of Node Allocatable: MemoryBytes is its limit, 0 for none, and MilliCPU
	// its CPUs, 0 if it runs on all.
	Resources
	// Pool holds the CPUs that it runs on: without a cpuset all that are exclusive to no other.
	Pool Pool `json:"pool"`
	// Members is nil where the pods of the node are not known.
	Members *Members `json:"members,omitempty"`
	// Share is the limit as it is written, such as 12%; empty for a quantity. ShareOfBytes is the
	// memory that it is of. Bound is memoryLimitMin or memoryLimitMax if that counts in place of
	// Share.
	Share        string `json:"share,omitempty"`
	ShareOfBytes uint64 `json:"shareOfBytes,omitempty"`
	Bound        string `json:"bound,omitempty"`
	// Section is the path of its section in the configuration. Warnings begin with it.
	Section string `json:"-"`
	// CPUs is empty if the partition runs on all CPUs.
	CPUs cpuset.CPUSet `json:"-"`
	// Threshold is the available memory in bytes below which a pod of it is evicted at once.
	Threshold int64 `json:"-"`
	// Exclusive means that no other pod runs on CPUs.
	Exclusive bool `json:"-"`
	// Advertised means that a workload type of the partition has a resource on the Node.
	Advertised bool `json:"-"`
}

// Members holds sums over the pods of the partition.
type Members struct {
	Pods int `json:"pods"`
	// MemoryRequestBytes is the sum of the requests, as the scheduler counts them.
	MemoryRequestBytes int64 `json:"memoryRequestBytes"`
	// MemoryLimitBytes is the sum of the limits of the pods that have one, and Unlimited counts the
	// others.
	MemoryLimitBytes int64 `json:"memoryLimitBytes"`
	Unlimited        int   `json:"unlimited"`
	// MemoryUsedBytes is what they use now as eviction counts it, in the partition and outside.
	MemoryUsedBytes int64 `json:"memoryUsedBytes"`
}

// Budget is the budget of a node.
type Budget struct {
	Capacity Resources `json:"capacity"`
	// KubeReserved and SystemReserved are the reservations in effect. reservedSystemCPUs has replaced
	// their CPUs.
	KubeReserved      Resources `json:"kubeReserved"`
	SystemReserved    Resources `json:"systemReserved"`
	EvictionThreshold Resources `json:"evictionThreshold"`
	// PressureBytes is the available memory below which the kubelet reports MemoryPressure and evicts,
	// at once or after a time; 0 for none. It is nil if the kubelet refuses evictionSoft, on which
	// nothing else depends.
	PressureBytes *int64 `json:"-"`
	// HugePagesBytes is the memory of all huge pages, which is not allocatable as memory.
	HugePagesBytes int64 `json:"hugePagesBytes,omitempty"`
	// Allocatable is Node Allocatable as the kubelet reports it. The partition does not reduce it.
	Allocatable Resources `json:"allocatable"`
	// Partitions lists the partitions. It is empty, and not nil, without one.
	Partitions []Partition `json:"partitions"`
	// PromisedBytes is the memory of the partitions that the scheduler promises to user pods, too:
	// memoryLimit less the requests of the members. Reservations may account for it.
	PromisedBytes int64 `json:"promisedBytes,omitempty"`
	// Remainder is left for user pods.
	Remainder Resources `json:"remainder"`
	CPUPools  Pools     `json:"cpuPools"`
	// Warnings lists figures that cannot work together.
	Warnings []string `json:"warnings"`
	// Short lists the warnings of partitions that leave too little for user pods.
	Short []string `json:"-"`
}

// Compute returns the budget of a node. The error lists the values of the kubelet's configuration
// that the kubelet refuses.
func Compute(in Input) (Budget, error) {
	if !in.Kubelet.hasStorage() {
		in.Capacity = in.Capacity.DeepCopy()
		delete(in.Capacity, v1.ResourceEphemeralStorage)
	}
	reservedCPUs, cpuErr := parseCPUs(in.Kubelet.ReservedSystemCPUs)
	reserved, reservedErr := reserve(&in.Kubelet, reservedCPUs)
	threshold, thresholdErr := evictionThreshold(in.Kubelet.EvictionHard, in.Capacity)
	if err := errors.Join(cpuErr, reservedErr, thresholdErr); err != nil {
		return Budget{}, err
	}
	var pressure *int64
	if soft, err := evictionThreshold(in.Kubelet.EvictionSoft, in.Capacity); err == nil {
		pressure = new(max(threshold.Memory().Value(), soft.Memory().Value()))
	}
	if in.IgnoreEviction {
		threshold = nil
	}
	left := allocatable(in.Capacity, reserved, threshold)
	b := Budget{
		Capacity:          resources(in.Capacity, in.Capacity),
		KubeReserved:      resources(reserved.kube, in.Capacity),
		SystemReserved:    resources(reserved.system, in.Capacity),
		EvictionThreshold: resources(threshold, in.Capacity),
		PressureBytes:     pressure,
		HugePagesBytes:    hugePages(in.Capacity),
		Allocatable:       resources(left, in.Capacity),
		Partitions:        append([]Partition{}, in.Partitions...),
	}
	b.CPUPools = pools(in.CPUs, reservedCPUs, b.Partitions)
	b.Remainder = split(b.Allocatable, b.Partitions, reservedCPUs)
	b.PromisedBytes = promised(in.Partitions)
	b.Warnings = append([]string{}, warnings(&in, &b, reservedCPUs, exceeded(in.Capacity, reserved, threshold))...)
	return b, nil
}

// parseCPUs parses reservedSystemCPUs.
func parseCPUs(list string) (cpuset.CPUSet, error) {
	if list == "" {
		return cpuset.New(), nil
	}
	cpus, err := text.ParseCPUs(list)
	if err != nil {
		return cpus, fmt.Errorf("reservedSystemCPUs: %q is not a list of CPUs; the kubelet does not start with it", list)
	}
	return cpus, nil
}
