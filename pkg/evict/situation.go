package evict

import (
	"time"

	"node-partition.io/node-partition/internal/cgroups"
)

// Situation holds the input of Decide: plain data.
type Situation struct {
	Now    time.Time
	Config Settings
	Memory cgroups.MemoryReading
	// Evidence holds what the kernel has counted at the partition's limit.
	Evidence evidence
	// Pods lists the pods in the partition with their usage. It is filled only if underPressure
	// reports true.
	Pods []Pod
	// Ownerless is the memory of the partition in bytes that belongs to none of Pods that runs in it
	// (Ownerless). It is filled with them.
	Ownerless uint64
	// Awaited means that the pods' requests and priorities are about to be known.
	Awaited bool
	// State is the result of earlier decisions.
	State State
	// API means that pods can be evicted through the API server.
	API bool
	// Lent is what the node lends beyond the configured limit now, in bytes.
	Lent uint64
}

// State carries over from one decision to the next. The state file has it.
type State struct {
	// Reclaiming is the threshold that was crossed while less than MinimumReclaim is available
	// above it, empty for none.
	Reclaiming Threshold `json:"reclaiming,omitempty"`
	// SoftSince is the time at which the soft threshold was crossed, zero if it is not.
	SoftSince time.Time `json:"softSince,omitzero"`
	// Open lists the open evictions.
	Open []execution `json:"-"`
	// Cooldown holds, by owner, the time until which no other of its pods is evicted.
	Cooldown map[string]time.Time `json:"-"`
	// Unreclaimable is the memory in bytes, by the UID of its pod, that the end of the pod's processes
	// did not bring back.
	Unreclaimable map[string]uint64 `json:"-"`
	// Base is the lowest usage of the partition since the last decision of a shortage, in bytes, and 0
	// before the first. PodBase has what each pod used then, by UID. They are usages, because less
	// memory is available below a limit that is lowered, although no pod has grown. PodBase outlives
	// the shortage: a pod that does not end is known then not to have grown
	// (TestManagerLeakWhileReclaiming, TestManagerFilesOutliveTheirPod).
	Base    uint64            `json:"base,omitempty"`
	PodBase map[string]uint64 `json:"podBase,omitempty"`
	// LeftAt is the time at which an eviction was last seen to leave memory of no pod, zero for none.
	LeftAt time.Time `json:"-"`
	// UnknownSince is the time from which an unknown pod delays evictions, zero if none does.
	UnknownSince time.Time `json:"-"`
}

// rounding exceeds the amount by which the kernel rounds a limit down: to whole pages, of 64
// KiB on some machines.
const rounding = 1 << 17

// limit returns the limit to guard, in bytes.
func (s Situation) limit() uint64 { return s.guarded(s.Memory.Max) }

// guarded returns the limit to guard below the limit in force, in bytes: that one, or the
// configured one with what the node lends. The configured one may also wait for evictions to be
// applied. If the limit in force is higher for another reason, an operator has raised it on
// purpose.
func (s Situation) guarded(inForce uint64) uint64 {
	c := &s.Config
	//guard: an operator's limit above the burst is guarded as it is
	if raised := inForce > c.Max()+rounding; !c.Lowering && (raised || c.Burst == 0 || c.Off) {
		return inForce
	}
	return min(c.Limit+s.Lent, inForce)
}

// unlimited reports whether there is no limit to guard.
func (s Situation) unlimited() bool { return s.limit() == cgroups.Unlimited }

// Effective returns the configuration for the limit in force. That limit may be below the
// configured one, because a raised limit is about to be applied, or because an operator has
// lowered it. The thresholds are then the same parts of the limit in force: the thresholds of the
// larger limit would evict pods without need.
func (s Situation) Effective() Settings {
	c := s.Config
	limit := s.limit()
	if limit >= c.Limit || c.Limit-limit < rounding {
		return c
	}
	part := float64(limit) / float64(c.Limit)
	for _, amount := range []*uint64{&c.Hard, &c.Soft, &c.MinimumReclaim} {
		*amount = uint64(float64(*amount) * part)
	}
	return c
}

// nearLimit is the memory in bytes that pods may allocate while a killed process ends. That takes a
// second on a busy node.
const nearLimit = 16 << 20

// atLimit reports whether the kernel may be about to kill at the limit in force. Without a reading
// that is not known.
func (s Situation) atLimit() bool {
	//guard: with room left no limit of a container is lowered
	//guard: without a reading no container is killed as at the limit
	return s.Memory.Max > 0 && s.Memory.Max != cgroups.Unlimited && s.Memory.Available(s.Memory.Max) < nearLimit
}
