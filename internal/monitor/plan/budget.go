package plan

import "nodepartition/internal/budget"

// Budget computes the budget of this node with a partition of memoryLimit bytes, 0 for none. It
// reads the configuration of the running kubelet, and neither pods nor the section.
func Budget(memoryLimit int64) (budget.Budget, error) {
	kubelet, err := readKubelet(nil)
	if err != nil {
		return budget.Budget{}, err
	}
	capacity, err := readCapacity(root, kubelet.rootDir)
	if err != nil {
		return budget.Budget{}, err
	}
	return budget.Compute(budget.Input{
		Kubelet:        kubelet.fields,
		IgnoreEviction: kubelet.ignoreEviction,
		Capacity:       capacity.Resources,
		CPUs:           capacity.CPUs,
		Partition:      &budget.Partition{MemoryLimit: memoryLimit},
	})
}
