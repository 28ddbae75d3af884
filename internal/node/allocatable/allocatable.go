// Package allocatable reads what a budget is computed from, the settings of the kubelet and the
// capacity of the node, and computes the budget of the node that it runs on.
package allocatable

import (
	"k8s.io/utils/cpuset"

	"nodepartition/internal/budget"
	"nodepartition/internal/host"
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
	Config  *kubeletconfig.Merged
	// MaxPods is the number of pods that the kubelet admits.
	MaxPods int64
}

// Read reads the configuration of the running kubelet and the capacity of the node n, and
// neither pods nor the section.
func Read(n host.Node) (Node, error) { return read(n, nil) }

// Budget computes the budget of the node n with partitions. It reads as Read does.
func Budget(n host.Node, partitions []budget.Share) (budget.Budget, error) {
	found, err := read(n, partitions)
	return found.Budget, err
}

func read(n host.Node, partitions []budget.Share) (Node, error) {
	settings, err := ReadSettings(n.Root, nil)
	if err != nil {
		return Node{}, err
	}
	capacity, err := ReadCapacity(n, settings.RootDir)
	if err != nil {
		return Node{}, err
	}
	in := settings.Input(capacity)
	in.Partitions = partitions
	b, err := budget.Compute(in)
	return Node{
		Budget: b, CPUs: capacity.CPUs, Kubelet: settings.Process, Config: settings.Config,
		MaxPods: settings.Kubelet.PodLimit(),
	}, err
}
