package node

import (
	"testing"
	"time"

	"node-partition.io/node-partition/internal/node/options"
	"node-partition.io/node-partition/internal/thresholds"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// TestEvictionSettings: the configuration of eviction by flags and thresholds.
func TestEvictionSettings(t *testing.T) {
	t.Parallel()
	some := &thresholds.Thresholds{Limit: 1, Hard: 2, Soft: 3, SoftGrace: 4, MaxPodGrace: 5, MinimumReclaim: 6}
	all := evict.Settings{Thresholds: thresholds.Thresholds{Limit: 1, Hard: 2, Soft: 3, SoftGrace: 4, MaxPodGrace: 5, MinimumReclaim: 6}, Protected: evict.DefaultProtected, Cooldown: time.Minute}
	with := func(change func(*evict.Settings)) evict.Settings {
		c := all
		change(&c)
		return c
	}
	base := options.Eviction{Protected: evict.DefaultProtected, Cooldown: time.Minute}
	off, dry := base, base
	off.Off, dry.DryRun = true, true
	for name, test := range map[string]struct {
		settings   options.Eviction
		thresholds *thresholds.Thresholds
		want       evict.Settings
	}{
		"on":            {base, some, all},
		"dry run":       {dry, some, with(func(c *evict.Settings) { c.DryRun = true })},
		"off":           {off, some, with(func(c *evict.Settings) { c.Off = true })},
		"no partition":  {base, nil, evict.Settings{Protected: evict.DefaultProtected, Cooldown: time.Minute, Off: true}},
		"none, dry run": {dry, nil, evict.Settings{Protected: evict.DefaultProtected, Cooldown: time.Minute, Off: true, DryRun: true}},
	} {
		if got := EvictionSettings(test.thresholds, test.settings); got != test.want {
			t.Errorf("%s: %+v; want %+v", name, got, test.want)
		}
	}
}

// TestEvictionOf: a limit that waits for evictions is told to eviction, and nothing is evicted by a
// decision that is not known any more.
func TestEvictionOf(t *testing.T) {
	t.Parallel()
	p := &decision.Partition{}
	p.Eviction, p.Deferral = &thresholds.Thresholds{Limit: 1, Hard: 2}, new(decision.Deferral)
	f := &Followed{}
	if s := f.EvictionOf(p, options.Eviction{}); !s.Lowering || s.Off {
		t.Errorf("%+v", s)
	}
	f.Unknown = true
	if s := f.EvictionOf(p, options.Eviction{}); !s.Off {
		t.Errorf("%+v; want it off", s)
	}
}
