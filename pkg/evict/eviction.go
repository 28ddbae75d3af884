package evict

import (
	"cmp"
	"slices"
	"time"
)

// Eviction is one eviction as the state file holds it: the decision, and how far it has been
// carried out. It is written before the first step. A program that is killed in between takes the
// remaining steps at its next start, and does not select a second pod instead. While it is open it
// is an execution, which keeps Gone and Reported.
type Eviction struct {
	PodMeta
	Verdict
	Amounts
	// Containers lists the stopped containers, without those that the kubelet starts in their place.
	Containers []Container `json:"containers"`
	// Gone means that the containers have ended, or that they did not end in time.
	Gone bool `json:"gone,omitempty"`
	// Reported means that no report to the API server is left to make: it has ended, or none is
	// needed.
	Reported bool `json:"reported,omitempty"`
	// Problem describes problems of this eviction.
	Problem string `json:"problem,omitempty"`
	// DryRun means that nothing was done.
	DryRun bool `json:"dryRun,omitempty"`
}

// Verdict holds the decision: when, by which threshold, and how the pod is evicted.
type Verdict struct {
	// Time of the decision.
	Time time.Time `json:"time"`
	// Threshold that was crossed.
	Threshold Threshold     `json:"threshold"`
	Method    Method        `json:"method"`
	Grace     time.Duration `json:"grace,omitempty"`
	// OutsideGrace is the grace period of the pod's containers outside of the partition.
	OutsideGrace time.Duration `json:"outsideGrace,omitempty"`
}

// Amounts holds the amounts of memory, in bytes, at the time of the decision.
type Amounts struct {
	// AvailableBytes were left of LimitBytes; AtBytes is the threshold.
	AvailableBytes uint64 `json:"availableBytes"`
	AtBytes        uint64 `json:"thresholdBytes"`
	LimitBytes     uint64 `json:"limitBytes"`
	// WorkingSetBytes and RequestBytes of the pod.
	WorkingSetBytes uint64 `json:"workingSetBytes"`
	RequestBytes    uint64 `json:"requestBytes"`
	// UsedBytes is the memory of the pod that the kernel cannot reclaim. PartitionBytes is the same
	// for the whole partition.
	UsedBytes      uint64 `json:"usedBytes"`
	PartitionBytes uint64 `json:"partitionBytes"`
	// OwnerlessBytes is the memory of the partition that belonged to no pod.
	OwnerlessBytes uint64 `json:"ownerlessBytes,omitempty"`
}

// newEviction returns the eviction that was decided.
func newEviction(s Situation, d Decision) Eviction {
	return Eviction{
		PodMeta: d.Victim.PodMeta,
		Verdict: Verdict{
			Time:         s.Now,
			Threshold:    d.Crossed,
			Method:       d.Method,
			Grace:        d.Grace,
			OutsideGrace: max(cmp.Or(d.Grace, d.Victim.GracePeriod), leastGrace),
		},
		Amounts: Amounts{
			AvailableBytes:  d.Available,
			AtBytes:         d.At,
			LimitBytes:      s.limit(),
			WorkingSetBytes: d.Victim.Usage.WorkingSet,
			RequestBytes:    d.Victim.Request,
			UsedBytes:       d.Victim.Usage.Used,
			PartitionBytes:  s.Memory.Used(),
			//guard: what belonged to no pod before an eviction is no part of what it left
			OwnerlessBytes: d.Ownerless,
		},
		Containers: slices.Clone(d.Victim.Containers),
		Reported:   d.Method != Evict,
		DryRun:     s.Config.DryRun,
	}
}
