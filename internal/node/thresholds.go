package node

import (
	"node-partition.io/node-partition/internal/node/options"
	"node-partition.io/node-partition/internal/thresholds"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/slices/decision"
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

// EvictionOf returns the settings for a partition of a configuration.
func (f *Followed) EvictionOf(p *decision.Partition, o options.Eviction) evict.Settings {
	s := EvictionSettings(p.Eviction, o)
	s.Lowering = p.Deferral != nil
	//guard: nothing is evicted while it is not known what to follow
	s.Off = s.Off || f.Unknown
	return s
}
