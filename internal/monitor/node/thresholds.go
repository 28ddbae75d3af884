package node

import (
	"math"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/monitor/options"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/slices/config"
	"nodepartition/pkg/slices/decision"
)

// Thresholds holds the settings of eviction.
type Thresholds decision.Thresholds

// presentThresholds returns the default thresholds of the limit that is in force.
func presentThresholds() *Thresholds {
	limits, err := cgroupfs.FS(cgroupfs.Mount).Limits(unitname.CgroupPath(unitname.System.Slice()))
	if err != nil || limits.MemoryMax > math.MaxInt64 {
		return nil
	}
	return (*Thresholds)(decision.ThresholdsOf(&config.Partition{MemoryLimit: int64(limits.MemoryMax)}))
}

// Config combines the thresholds with the flags of eviction. Without thresholds eviction is off.
func (t *Thresholds) Config(o options.Eviction) evict.Config {
	c := evict.Config{Protected: o.Protected, Cooldown: o.Cooldown, DryRun: o.DryRun, Off: o.Off || t == nil}
	if t != nil {
		c.Limit, c.Hard, c.Soft, c.SoftGrace = t.Limit, t.Hard, t.Soft, t.SoftGrace
		c.MaxPodGrace, c.MinimumReclaim = t.MaxPodGrace, t.MinimumReclaim
	}
	return c
}
