package node

import (
	"slices"

	"node-partition.io/node-partition/internal/budget"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/config"
)

// Budget computes the budget of the node n with partitions, from the configuration of the running
// kubelet and the capacity of the node. It does not read pods.
func Budget(n host.Node, partitions []budget.Partition) (budget.Budget, error) {
	settings, err := ReadKubeletSettings(n.Root, nil)
	if err != nil {
		return budget.Budget{}, err
	}
	capacity, err := ReadCapacity(n, settings.RootDir)
	if err != nil {
		return budget.Budget{}, err
	}
	in := settings.Input(capacity)
	in.Partitions = partitions
	return budget.Compute(in)
}

// BudgetOf computes the budget of a node of a capacity from the files of c alone.
func BudgetOf(c *kubeletconfig.Merged, capacity *Capacity, partitions []budget.Partition) (budget.Budget, error) {
	var settings KubeletSettings
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

// BudgetPartitions returns the partitions for a budget, with the workload types that they have, and
// without their members.
func BudgetPartitions(partitions []config.Partition, types []partition.Workload) []budget.Partition {
	list := make([]budget.Partition, 0, len(partitions))
	for _, p := range partitions {
		b := budget.Partition{
			Name: p.Name, Section: config.SectionPath(p.Name), Resources: budget.Resources{MemoryBytes: int64(p.Limit)},
			CPUs: p.CPUs, Exclusive: p.Exclusive, Threshold: int64(p.Hard),
			Advertised: slices.ContainsFunc(types, func(w partition.Workload) bool {
				return w.Advertise && w.Partition == p.Name
			}),
		}
		if s := p.Share; s != nil {
			b.Share, b.ShareOfBytes, b.Bound = s.Text, s.OfBytes, s.Bound
		}
		list = append(list, b)
	}
	return list
}
