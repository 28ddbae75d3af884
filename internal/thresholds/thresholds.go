// Package thresholds has the memory limit of a partition and the thresholds of eviction, from the
// file of the generator's decision to the metrics.
package thresholds

import "time"

// Thresholds holds the memory limit of a partition and its thresholds of eviction. Amounts are in
// bytes, and times in nanoseconds.
type Thresholds struct {
	// Limit is the configured memoryLimit, 0 for none.
	Limit uint64 `json:"limit"`
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

// Nearest returns the threshold that is crossed first while memory fills, in bytes; 0 for none. Who
// speaks of the memory that is left until an eviction counts to it.
func (t Thresholds) Nearest() uint64 { return max(t.Hard, t.Soft) }
