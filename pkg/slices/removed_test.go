package slices

import (
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/config"
)

// TestRemovedPartition: a partition whose section is gone has all CPUs while pods keep the former
// list, and none of ours afterwards. One that is made has its CPUs in its unit.
func TestRemovedPartition(t *testing.T) {
	t.Parallel()
	const dropin = "kubepods-system.slice.d/" + dropinName
	former := map[string]string{dropin: "[Slice]\nAllowedCPUs=0-3\n"}
	for name, test := range map[string]struct {
		made, running, keeps bool
		kept                 map[string]string
		want                 string
	}{
		"with pods":        {running: true, keeps: true, want: "DefaultDependencies=no\n\n[Slice]\nAllowedCPUs=0-3\n"},
		"without a list":   {running: true},
		"empty":            {running: true, kept: former, want: "DefaultDependencies=no\n"},
		"gone":             {kept: former, want: "DefaultDependencies=no\n"},
		"made again":       {made: true, running: true, kept: former, want: "DefaultDependencies=no\n"},
		"never had a list": {running: true, kept: map[string]string{dropin: "kept"}, want: "kept"},
	} {
		var p *config.Partition
		if test.made {
			p = &config.Partition{CPUs: cpuset.New(0)}
		}
		in := inputOf(p)
		in.running = map[partition.Name]bool{partition.System: test.running}
		in.keepsCPUs = map[partition.Name]bool{partition.System: test.keeps}
		in.kept, in.nodeCPUs = test.kept, cpuset.New(0, 1, 2, 3)
		got := contents(units(in))[dropin]
		if !strings.HasSuffix(got, test.want) || (test.want == "") != (got == "") {
			t.Errorf("%s: %q; want %q", name, got, test.want)
		}
	}
}
