package evict

import "time"

// Events is notified of what happens: the program counts it, and writes it to the log. Its methods
// return at once and may be called from any goroutine.
type Events interface {
	// Evicting is called after the first step of an eviction. reaction is the time from the look
	// that saw the threshold crossed to the end of that step. It is 0 where the step stops no
	// container: in a dry run, of which nothing else is notified, and when the restart of a pod
	// becomes an eviction.
	Evicting(e Eviction, reaction time.Duration)
	// Resumed is called for an eviction that an earlier run left.
	Resumed(e Eviction)
	// Evicted is called when the memory is back and the report to the API server has ended, or when
	// neither is to be expected any more: Problem has the reason. What was to be an eviction may
	// have become a restart.
	Evicted(e Eviction, took time.Duration)
	// Failed is called for each step of an eviction that did not work, with an empty Eviction where
	// the step is not of one. It is called for each look that failed too; Warn is called for those
	// once a minute.
	Failed(e Eviction, step Step, err error)
	// Nobody is called when a pod should be evicted and none may: the kernel kills at the limit. It
	// is called once a minute at most.
	Nobody(d Decision)
	// KernelKilled is called for processes in the partition that the kernel has killed.
	KernelKilled(limit KilledAt, processes uint64)
	// Warn is called for what hampers eviction, once a minute for each text.
	Warn(err error)
}

// Step is a part of an eviction.
type Step string

// The steps.
const (
	StepStop    Step = "stop"
	StepAPI     Step = "api"
	StepState   Step = "state"
	StepTimeout Step = "timeout"
	StepReclaim Step = "reclaim"
	StepLook    Step = "look"
)

// Steps returns all of them, for metrics that must have a value before the first.
func Steps() []Step { return []Step{StepStop, StepAPI, StepState, StepTimeout, StepReclaim, StepLook} }

// KilledAt is the limit at which the kernel killed.
type KilledAt string

const (
	// AtPartition is the limit of the partition.
	AtPartition KilledAt = "partition"
	// AtPod is that of a pod or a container, or the node's memory.
	AtPod KilledAt = "pod"
)
