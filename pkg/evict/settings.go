package evict

import (
	"time"

	"node-partition.io/node-partition/internal/thresholds"
)

// Settings holds the configured eviction settings. Amounts are in bytes.
type Settings struct {
	thresholds.Thresholds
	// Lowering means that the limit was lowered below the present usage. It is applied after evictions
	// have brought usage below it.
	Lowering bool
	// Protected selects the protected pods, which are never evicted.
	Protected Protected
	// Cooldown is the time in which pods of the same owner are not evicted again through the API
	// server. Their containers are only stopped, and the kubelet restarts them with its growing delay.
	// Otherwise a DaemonSet would be evicted in a circle.
	Cooldown time.Duration
	// DryRun reports evictions without carrying them out.
	DryRun bool
	// Off means that there is no limit to guard.
	Off bool
}

// threshold returns the amount of a threshold.
func (c Settings) threshold(name Threshold) uint64 {
	if name == Soft {
		return c.Soft
	}
	return c.Hard
}
