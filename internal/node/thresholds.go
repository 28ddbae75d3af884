package node

import (
	"nodepartition/internal/node/options"
	"nodepartition/internal/thresholds"
	"nodepartition/pkg/evict"
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
