// Package allocatable reads what a budget is computed from, the settings of the kubelet and the
// capacity of the node, and computes the budget of the node that it runs on.
package allocatable

import (
	"slices"

	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/budget"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletargs"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/membership"
	"node-partition.io/node-partition/pkg/slices/config"
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

// BudgetOf computes the budget of a node of a capacity from the files of c alone.
func BudgetOf(c *kubeletconfig.Merged, capacity *Capacity, partitions []budget.Share) (budget.Budget, error) {
	var settings Settings
	if err := settings.read(c); err != nil {
		return budget.Budget{}, err
	}
	if settings.Kubelet.EvictionHard == nil { // no file of a kubelet
		settings.Kubelet.EvictionHard = budget.DefaultEvictionHard()
	}
	in := settings.Input(capacity)
	in.Partitions = partitions
	return budget.Compute(in)
}

// Shares returns the partitions for a budget, with the workload types that they have, and without
// their members.
func Shares(partitions []config.Partition, types []membership.Workload) []budget.Share {
	list := make([]budget.Share, 0, len(partitions))
	for _, p := range partitions {
		list = append(list, budget.Share{
			Name: p.Name, Section: config.SectionPath(p.Name), MemoryLimit: int64(p.Limit), CPUs: p.CPUs, Exclusive: p.Exclusive,
			Advertised: slices.ContainsFunc(types, func(w membership.Workload) bool {
				return w.Advertise && w.Partition == p.Name
			}),
		})
	}
	return list
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
