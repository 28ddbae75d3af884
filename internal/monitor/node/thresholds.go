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

// Thresholds are what eviction goes by; bytes and nanoseconds. A MaxPodGrace below zero is the
// pod's own.
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

// presentThresholds are the default ones of the limit that is in force.
func presentThresholds() *Thresholds {
	limits, err := cgroupfs.FS(cgroupfs.Mount).Limits(unitname.CgroupPath(unitname.System.Slice()))
	if err != nil || limits.MemoryMax > math.MaxInt64 {
		return nil
	}
	return newThresholds(&config.Partition{MemoryLimit: int64(limits.MemoryMax)})
}

// Config returns what the thresholds and the flags of eviction ask for together. Without thresholds there is nothing to guard.
func (t *Thresholds) Config(o options.Eviction) evict.Config {
	c := evict.Config{Protected: o.Protected, Cooldown: o.Cooldown, DryRun: o.DryRun, Off: o.Off || t == nil}
	if t != nil {
		c.Limit, c.Hard, c.Soft, c.SoftGrace = t.Limit, t.Hard, t.Soft, t.SoftGrace
		c.MaxPodGrace, c.MinimumReclaim = t.MaxPodGrace, t.MinimumReclaim
	}
	return c
}
