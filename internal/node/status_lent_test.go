package node_test

import (
	"fmt"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/internal/thresholds"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove/report"
	"node-partition.io/node-partition/pkg/slices/decision"
	"node-partition.io/node-partition/tests/fakenode"
)

// TestReadStatusLent: the limit of a partition that borrows is the one that is guarded, and memory
// that is left is counted to it.
func TestReadStatusLent(t *testing.T) {
	const mi = 1 << 20
	for name, test := range map[string]struct {
		max, lent, limit, left uint64
		memory, evicts         string
	}{
		"nothing":               {300 * mi, 0, 200 * mi, 20 * mi, "180Mi used of 200Mi", "NOW by 30Mi"},
		"some":                  {300 * mi, 60 * mi, 260 * mi, 80 * mi, "180Mi used of 260Mi (60Mi lent by the node)", "after 30Mi more"},
		"all":                   {300 * mi, 100 * mi, 300 * mi, 120 * mi, "180Mi used of 300Mi (100Mi lent by the node)", "after 70Mi more"},
		"an operator's, higher": {500 * mi, 60 * mi, 500 * mi, 320 * mi, "180Mi used of 500Mi", "after 270Mi more"},
		"an operator's, lower":  {240 * mi, 60 * mi, 240 * mi, 60 * mi, "180Mi used of 240Mi (40Mi lent by the node)", "after 10Mi more"},
	} {
		t.Run(name, func(t *testing.T) {
			n := fakenode.New(t, fakenode.Valid("kube-system"))
			n.Partition(fmt.Sprint(test.max))
			n.Write(fakenode.SystemCgroup+"/memory.current", fmt.Sprint(180*mi))
			followed := node.Followed{Decision: decision.Decision{Partitions: []decision.Partition{
				{Name: partition.System, Eviction: &thresholds.Thresholds{Limit: 200 * mi, Burst: 100 * mi, Hard: 50 * mi}},
			}}}
			s := node.ReadStatus(
				n.Host(), node.EvictionFlags{}, followed, report.Report{},
				func(partition.Name) []evict.Pod { return nil }, map[partition.Name]uint64{partition.System: test.lent},
			)
			if len(s.Partitions) != 1 || s.Partitions[0].Eviction == nil || s.Problem != "" {
				t.Fatalf("%+v", s)
			}
			p := &s.Partitions[0]
			if *p.LimitBytes != test.limit || p.Eviction.AvailableBytes != test.left {
				t.Errorf("%d of %d MiB are left; want %d of %d", p.Eviction.AvailableBytes/mi, *p.LimitBytes/mi, test.left/mi, test.limit/mi)
			}
			if got := fact(p, "Memory"); got != test.memory {
				t.Errorf("Memory %q; want %q", got, test.memory)
			}
			if got := fact(p, "Evicts"); !strings.HasSuffix(got, test.evicts) {
				t.Errorf("Evicts %q; want %q", got, test.evicts)
			}
		})
	}
}

// fact returns the text of a fact of a partition.
func fact(p *state.Partition, name string) string {
	for _, f := range node.PartitionFacts(p) {
		if f.Name == name {
			return f.Text
		}
	}
	return ""
}
