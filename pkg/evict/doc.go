// Package evict keeps the system partition below its memory limit, so that the kernel does not have to kill at it: it watches
// the partition's memory, decides which pod goes, in the kubelet's order, and has it go.
//
// Deciding is pure: Decide and Rank take plain data. What acts is small, and each step can be taken again by the next run of the
// program: see Eviction.
package evict
