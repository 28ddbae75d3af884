package node

import (
	"math"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/node/options"
	"nodepartition/internal/thresholds"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/slices/config"
	"nodepartition/pkg/slices/decision"
)

// presentThresholds returns the default thresholds of the limit of a partition that is in force.
func presentThresholds(cgroups cgroupfs.FS, name unitname.PartitionName) *thresholds.Thresholds {
	limits, err := cgroups.Limits(unitname.CgroupPath(name.Slice()))
	if err != nil || limits.MemoryMax > math.MaxInt64 {
		return nil
	}
	return decision.ThresholdsOf(&config.Partition{MemoryLimit: int64(limits.MemoryMax)})
}

// EvictionSettings combines thresholds with the flags of eviction. Without thresholds eviction is
// off.
func EvictionSettings(t *thresholds.Thresholds, o options.Eviction) evict.Settings {
	s := evict.Settings{Protected: o.Protected, Cooldown: o.Cooldown, DryRun: o.DryRun, Off: o.Off || t == nil}
	if t != nil {
		s.Thresholds = *t
	}
	return s
}
