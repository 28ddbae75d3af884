package evict

import "time"

// Config holds the configured eviction settings. Amounts are in bytes.
type Config struct {
	// Limit is the configured memoryLimit, 0 for none.
	Limit uint64
	// Lowering means that the limit was lowered below the present usage. It is applied after evictions
	// have brought usage below it.
	Lowering bool
	// Hard is the amount of available memory below which a pod is evicted at once; 0 for never.
	Hard uint64
	// Soft is the amount below which a pod is evicted with a grace period, after SoftGrace; 0 for
	// never.
	Soft      uint64
	SoftGrace time.Duration
	// MaxPodGrace bounds the grace period of a pod evicted by Soft; negative for the pod's own.
	MaxPodGrace time.Duration
	// MinimumReclaim is added to a threshold that was crossed: evictions continue until that much more
	// is available.
	MinimumReclaim uint64
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
