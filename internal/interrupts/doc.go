// Package interrupts keeps interrupts of devices off CPUs. Interrupts that are new follow the
// kernel's default affinity. irqbalance moves those that are there, and leaves CPUs out.
//
// Nothing here writes the affinity of a single interrupt: an operator may have set it, and nothing
// would know that afterwards.
package interrupts
