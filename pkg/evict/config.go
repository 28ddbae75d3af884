package evict

import "time"

// Config is what the configuration asks for. Amounts are in bytes.
type Config struct {
	// Limit is the configured memoryLimit, 0 for none.
	Limit uint64
	// Lowering says that the limit was lowered below what is used, and waits to be applied until we have evicted down to it.
	Lowering bool
	// Hard is the amount of available memory below which a pod goes at once; 0 for never.
	Hard uint64
	// Soft is the amount below which a pod goes, with a grace period, when it has been so for SoftGrace; 0 for never.
	Soft      uint64
	SoftGrace time.Duration
	// MaxPodGrace bounds the grace period of a pod that goes because of Soft; negative for the pod's own.
	MaxPodGrace time.Duration
	// MinimumReclaim is added to a threshold that was crossed: evictions go on until so much more is available.
	MinimumReclaim uint64
	// Spare are the pods that never go.
	Spare Spare
	// Cooldown is how long the pods of an owner are not evicted through the API server again. Their containers are stopped
	// meanwhile, and the kubelet starts them with its growing delay: a DaemonSet would otherwise be evicted in a circle.
	Cooldown time.Duration
	// DryRun only reports.
	DryRun bool
	// Off says that there is nothing to guard.
	Off bool
}
