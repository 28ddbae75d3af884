package node

import (
	"testing"
	"time"

	"node-partition.io/node-partition/internal/thresholds"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// TestEvictionOf: the settings of eviction by flags and thresholds. A limit that waits for
// evictions is told to eviction, and nothing is evicted by a decision that is not known any more.
func TestEvictionOf(t *testing.T) {
	t.Parallel()
	flags := EvictionFlags{Settings: evict.Settings{Protected: evict.DefaultProtected, Cooldown: time.Minute, DryRun: true}}
	some := thresholds.Thresholds{Limit: 1, Hard: 2, Soft: 3, SoftGrace: 4, MaxPodGrace: 5, MinimumReclaim: 6}
	on := flags.Settings
	on.Thresholds = some
	waits, off, none := on, on, flags.Settings
	waits.Lowering, off.Off, none.Off = true, true, true
	offFlags := flags
	offFlags.Off = true
	for name, test := range map[string]struct {
		from  Followed
		of    decision.Partition
		flags EvictionFlags
		want  evict.Settings
	}{
		"on":                 {Followed{}, decision.Partition{Eviction: &some}, flags, on},
		"a limit that waits": {Followed{}, decision.Partition{Eviction: &some, Deferral: new(decision.Deferral)}, flags, waits},
		"off by a flag":      {Followed{}, decision.Partition{Eviction: &some}, offFlags, off},
		"not known any more": {Followed{Unknown: true}, decision.Partition{Eviction: &some}, flags, off},
		"no partition":       {Followed{}, decision.Partition{Off: true}, flags, none},
	} {
		if got := test.from.EvictionOf(&test.of, test.flags); got != test.want {
			t.Errorf("%s: %+v; want %+v", name, got, test.want)
		}
	}
}
