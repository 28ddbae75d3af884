package evict

import (
	"time"

	"nodepartition/internal/cgroupfs"
)

// Observer hears what happens, for metrics. Its methods return at once and may be called from any goroutine.
type Observer interface {
	// Signalled is called for each pod that was told to end, took after the look that saw the threshold crossed.
	Signalled(took time.Duration)
	// Evicted is called for each eviction that is through, or given up: what was to be an eviction may have become a restart.
	Evicted(e Eviction)
	// Failed is called for each step of an eviction that did not work, and for each look that failed.
	Failed(step Step)
	// Nobody is called when a pod should go and none may.
	Nobody()
	// KernelKilled is called for processes in the partition that the kernel has killed.
	KernelKilled(limit KilledAt, processes uint64)
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

// Steps are all of them, for metrics that must have a value before the first.
func Steps() []Step { return []Step{StepStop, StepAPI, StepState, StepTimeout, StepReclaim, StepLook} }

// KilledAt is the limit at which the kernel killed.
type KilledAt string

const (
	// AtPartition is the limit of the partition.
	AtPartition KilledAt = "partition"
	// AtPod is that of a pod or a container, or the node's memory.
	AtPod KilledAt = "pod"
)

// Journal hears what an operator may want to read later. Its methods return at once and may be called from any goroutine.
type Journal interface {
	// Evicting is called when the first step was taken, Evicted when the memory is back and the API server told, or when neither is to be
	// expected any more: Problem says why.
	Evicting(e Eviction)
	Evicted(e Eviction, took time.Duration)
	// Resumed is called for an eviction that an earlier run left.
	Resumed(e Eviction)
	// Failed is called for a step that did not work.
	Failed(e Eviction, step Step, err error)
	// Nobody is called when a pod should go and none may: the kernel kills at the limit. It is called once a minute at most.
	Nobody(d Decision)
	// KernelKilled is called for processes in the partition that the kernel has killed.
	KernelKilled(limit KilledAt, processes uint64)
	// Warn is called for what hampers us.
	Warn(err error)
}

// Report is the present state.
type Report struct {
	// Time of the look; zero before the first.
	Time time.Time `json:"time"`
	// Memory of the partition, Limit for it, and what is available below that, in bytes.
	Memory    cgroupfs.MemoryReading `json:"memory"`
	Limit     uint64                 `json:"limit"`
	Available uint64                 `json:"available"`
	// Hard and Soft are the thresholds in bytes, 0 for none.
	Hard uint64 `json:"hard"`
	Soft uint64 `json:"soft"`
	// Crossed is the threshold that is crossed, Held why nobody goes nevertheless, and Nobody tells that none may.
	Crossed Threshold `json:"crossed,omitempty"`
	Held    Hold      `json:"held,omitempty"`
	Nobody  bool      `json:"nobody,omitempty"`
}
