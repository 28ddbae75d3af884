package evict

import "time"

// Events is notified of evictions and failures: the program counts them and writes them to the log.
// Its methods return at once and may be called from any goroutine.
type Events interface {
	// Evicting is called after the first step of an eviction. reaction is the time from the poll that
	// found the threshold crossed to the end of that step. It is 0 if the step stops no container.
	// That is so in a dry run, for which no other method is called, and when the restart of a pod
	// becomes an eviction.
	Evicting(e Eviction, reaction time.Duration)
	// Resumed is called for an eviction that an earlier run has left open.
	Resumed(e Eviction)
	// Evicted is called when the memory is back and the report to the API server has ended, or when
	// neither is expected any more: Problem has the reason. An intended eviction may have become a
	// restart.
	Evicted(e Eviction, took time.Duration)
	// Failed is called for each step of an eviction that failed, and with an empty Eviction if the
	// step belongs to none. It is also called for each failed poll; Warn is called for those once a
	// minute.
	Failed(e Eviction, step Step, err error)
	// NoCandidate is called when a pod should be evicted and there is no candidate: the kernel kills
	// at the limit. It is called once a minute at most.
	NoCandidate(d Decision)
	// KernelKilled is called for processes in the partition that the kernel has killed.
	KernelKilled(limit KilledAt, processes uint64)
	// Warn is called for problems that hamper eviction, once a minute for each text.
	Warn(err error)
}

// Step names a part of an eviction.
type Step string

// The steps.
const (
	StepStop    Step = "stop"
	StepAPI     Step = "api"
	StepState   Step = "state"
	StepTimeout Step = "timeout"
	StepReclaim Step = "reclaim"
	StepPoll    Step = "poll"
)

// Steps returns all steps, for metrics that must have a value before the first eviction.
func Steps() []Step { return []Step{StepStop, StepAPI, StepState, StepTimeout, StepReclaim, StepPoll} }

// KilledAt names the limit at which the kernel killed.
type KilledAt string

const (
	// AtPartition is the limit of the partition.
	AtPartition KilledAt = "partition"
	// AtPod is the limit of a pod or a container, or the memory of the node.
	AtPod KilledAt = "pod"
)
