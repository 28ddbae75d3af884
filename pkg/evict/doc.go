// Package evict keeps the system partition below its memory limit, so that the kernel does not have
// to kill at it: it watches the partition's memory, decides which pod goes, in the kubelet's order,
// and has it go.
//
// Manager is the loop: it looks, decides, acts and waits. Deciding is pure: Decide and Rank take
// plain data. One eviction is an execution, whose comment has its states in a picture; its
// transitions are pure too. The executor acts on both, and each step can be taken again by the next
// run of the program.
package evict
