package node

import (
	"testing"
	"time"

	"nodepartition/internal/monitor/options"
	"nodepartition/pkg/evict"
)

// TestThresholdsConfig: the configuration of eviction by flags and thresholds.
func TestThresholdsConfig(t *testing.T) {
	t.Parallel()
	some := &Thresholds{Limit: 1, Hard: 2, Soft: 3, SoftGrace: 4, MaxPodGrace: 5, MinimumReclaim: 6}
	all := evict.Config{Limit: 1, Hard: 2, Soft: 3, SoftGrace: 4, MaxPodGrace: 5, MinimumReclaim: 6, Protected: evict.DefaultProtected, Cooldown: time.Minute}
	with := func(change func(*evict.Config)) evict.Config {
		c := all
		change(&c)
		return c
	}
	base := options.Eviction{Protected: evict.DefaultProtected, Cooldown: time.Minute}
	off, dry := base, base
	off.Off, dry.DryRun = true, true
	for name, test := range map[string]struct {
		settings   options.Eviction
		thresholds *Thresholds
		want       evict.Config
	}{
		"on":            {base, some, all},
		"dry run":       {dry, some, with(func(c *evict.Config) { c.DryRun = true })},
		"off":           {off, some, with(func(c *evict.Config) { c.Off = true })},
		"no partition":  {base, nil, evict.Config{Protected: evict.DefaultProtected, Cooldown: time.Minute, Off: true}},
		"none, dry run": {dry, nil, evict.Config{Protected: evict.DefaultProtected, Cooldown: time.Minute, Off: true, DryRun: true}},
	} {
		if got := test.thresholds.Config(test.settings); got != test.want {
			t.Errorf("%s: %+v; want %+v", name, got, test.want)
		}
	}
}
