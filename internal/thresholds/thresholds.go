// Package thresholds has the memory limit of a partition and the thresholds of eviction, from the
// file of the generator's decision to the metrics.
package thresholds

import "time"

// Thresholds holds the memory limit of a partition and its thresholds of eviction. Amounts are in
// bytes, and times in nanoseconds.
type Thresholds struct {
	// Limit is the configured memoryLimit, 0 for none.
	Limit uint64 `json:"limit"`
	// Burst is the most that the node lends beyond Limit, 0 for nothing.
	Burst uint64 `json:"burst,omitempty"`
	// Hard is the amount of available memory below which a pod is evicted at once; 0 for never.
	Hard uint64 `json:"hard"`
	// Soft is the amount below which a pod is evicted with a grace period, after SoftGrace; 0 for
	// never.
	Soft      uint64        `json:"soft"`
	SoftGrace time.Duration `json:"softGrace"`
	// MaxPodGrace bounds the grace period of a pod evicted by Soft; negative for the pod's own.
	MaxPodGrace time.Duration `json:"maxPodGrace"`
	// MinimumReclaim is added to a threshold that was crossed: evictions continue until that much more
	// is available.
	MinimumReclaim uint64 `json:"minimumReclaim"`
}

// Max returns the limit that the kernel has, in bytes; 0 for none. The node may lend all of Burst
// at any time, and what it lends now is a matter of evictions.
func (t Thresholds) Max() uint64 { return t.Limit + t.Burst }

// Lent returns the part of a limit that is guarded that the node lends, in bytes. A limit above Max
// is an operator's.
func (t Thresholds) Lent(guarded uint64) uint64 {
	if guarded > t.Max() {
		return 0
	}
	return guarded - min(t.Limit, guarded)
}

// Nearest returns the threshold that is crossed first while memory fills, in bytes; 0 for none. Who
// speaks of the memory that is left until an eviction counts to it.
func (t Thresholds) Nearest() uint64 { return max(t.Hard, t.Soft) }
