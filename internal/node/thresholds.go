package node

import (
	"node-partition.io/node-partition/internal/node/options"
	"node-partition.io/node-partition/internal/thresholds"
	"node-partition.io/node-partition/pkg/evict"
)

// EvictionSettings combines thresholds with the flags of eviction. Without thresholds eviction is
// off.
func EvictionSettings(t *thresholds.Thresholds, o options.Eviction) evict.Settings {
	s := evict.Settings{Protected: o.Protected, Cooldown: o.Cooldown, DryRun: o.DryRun, Off: o.Off || t == nil}
	if t != nil {
		s.Thresholds = *t
	}
	return s
}
