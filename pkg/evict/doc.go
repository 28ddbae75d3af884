// Package evict keeps a partition below its memory limit, so that the kernel does not have to kill
// at that limit. It polls the partition's memory, selects a pod in the kubelet's eviction order,
// and evicts it.
//
// Manager is the loop of one partition: it polls, decides, acts and waits. Deciding is pure: Decide
// and rank take plain data. One eviction is an execution, whose comment has a diagram of its
// states; its transitions are pure too. The executor acts on both. The next run of the program can
// repeat each step.
package evict
