package node

import (
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// EvictionOf returns the settings for a partition of a configuration: those of the flags, with its
// thresholds. Without any, eviction is off.
func (f *Followed) EvictionOf(p *decision.Partition, flags Eviction) evict.Settings {
	s := flags.Settings
	if p.Eviction != nil {
		s.Thresholds = *p.Eviction
	}
	s.Lowering = p.Deferral != nil
	//guard: nothing is evicted while it is not known what to follow
	s.Off = s.Off || p.Eviction == nil || f.Unknown
	return s
}
