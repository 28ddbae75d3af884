package node

import (
	"math"
	"time"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/monitor/options"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/slices/config"
)

// Thresholds holds the settings of eviction, in bytes and nanoseconds. A negative MaxPodGrace means
// the pod's own grace period.
type Thresholds struct {
	Limit          uint64        `json:"limit"`
	Hard           uint64        `json:"hard"`
	Soft           uint64        `json:"soft"`
	SoftGrace      time.Duration `json:"softGrace"`
	MaxPodGrace    time.Duration `json:"maxPodGrace"`
	MinimumReclaim uint64        `json:"minimumReclaim"`
}

func newThresholds(p *config.Partition) *Thresholds {
	limit := p.MemoryLimit
	t := Thresholds{Limit: uint64(limit), MaxPodGrace: -1, MinimumReclaim: uint64(p.MinimumReclaim)}
	if p.MaxPodGracePeriod != nil {
		t.MaxPodGrace = *p.MaxPodGracePeriod
	}
	if hard, ok := p.Eviction.Of(limit); ok {
		t.Hard = uint64(hard)
	}
	if p.EvictionSoft != nil {
		if soft, ok := p.EvictionSoft.Of(limit); ok {
			t.Soft, t.SoftGrace = uint64(soft), p.EvictionSoft.GracePeriod
		}
	}
	return &t
}

// presentThresholds returns the default thresholds of the limit that is in force.
func presentThresholds() *Thresholds {
	limits, err := cgroupfs.FS(cgroupfs.Mount).Limits(unitname.CgroupPath(unitname.System.Slice()))
	if err != nil || limits.MemoryMax > math.MaxInt64 {
		return nil
	}
	return newThresholds(&config.Partition{MemoryLimit: int64(limits.MemoryMax)})
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
