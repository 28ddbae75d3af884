package plan

import (
	"k8s.io/utils/cpuset"

	"nodepartition/internal/budget"
	"nodepartition/internal/kubeletargs"
	"nodepartition/internal/kubeletconfig"
)

// Node holds the budget of this node without a partition, and what it is computed from.
type Node struct {
	budget.Budget
	// CPUs holds the CPUs that are online.
	CPUs cpuset.CPUSet
	// Kubelet is the running kubelet, and Config the configuration that its command line names. Both
	// are nil if no kubelet runs in a service of its own.
	Kubelet *kubeletargs.Process
	Config  *kubeletconfig.Config
	// MaxPods is the number of pods that the kubelet admits.
	MaxPods int64
}

// ReadNode reads the configuration of the running kubelet and the capacity of the node, and neither
// pods nor the section.
func ReadNode() (Node, error) { return readNode(nil) }

// Budget computes the budget of this node with a partition of memoryLimit bytes, 0 for none. It
// reads as ReadNode does.
func Budget(memoryLimit int64) (budget.Budget, error) {
	n, err := readNode(&budget.Partition{MemoryLimit: memoryLimit})
	return n.Budget, err
}

func readNode(partition *budget.Partition) (Node, error) {
	kubelet, err := readKubelet(nil)
	if err != nil {
		return Node{}, err
	}
	capacity, err := readCapacity(root, kubelet.rootDir)
	if err != nil {
		return Node{}, err
	}
	b, err := budget.Compute(budget.Input{
		Kubelet:        kubelet.fields,
		IgnoreEviction: kubelet.ignoreEviction, IgnoreReservedMemory: kubelet.ignoreReserved,
		Capacity:  capacity.Resources,
		CPUs:      capacity.CPUs,
		Partition: partition,
	})
	return Node{
		Budget: b, CPUs: capacity.CPUs, Kubelet: kubelet.process, Config: kubelet.config, MaxPods: kubelet.fields.PodLimit(),
	}, err
}
