package daemon

import (
	"errors"
	"reflect"
	"testing"

	"node-partition.io/node-partition/internal/daemon/metrics"
	"node-partition.io/node-partition/internal/membership"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/thresholds"
	"node-partition.io/node-partition/internal/unitname"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// TestConfigurationMetrics: the metrics are of the configuration that is followed.
func TestConfigurationMetrics(t *testing.T) {
	t.Parallel()
	limited := &thresholds.Thresholds{Limit: 512 << 20}
	system := func(limit uint64, lowering bool) map[unitname.PartitionName]metrics.ConfiguredPartition {
		return map[unitname.PartitionName]metrics.ConfiguredPartition{unitname.System: {MemoryLimit: limit, Lowering: lowering}}
	}
	const digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	on := decision.Partition{Name: unitname.System, Eviction: limited}
	decided := func(p decision.Partition) node.Followed {
		return node.Followed{Decision: decision.Decision{Section: digest, Partitions: []decision.Partition{p}}}
	}
	tried, refused, kubelets := decided(on), decided(on), decided(on)
	tried.Trial, refused.Problem, kubelets.KubeletsFile = true, errors.New("memoryLimit: lots"), true
	kubelets.Partitions[0].Deferral = &decision.Deferral{}
	typed := decided(on)
	typed.Workloads = []membership.Workload{{Type: "management", Partition: unitname.System}}
	for name, test := range map[string]struct {
		from node.Followed
		want metrics.Configured
	}{
		"on trial": {tried, metrics.Configured{Section: "ba7816bf8f01", OnTrial: true, Partitions: system(512<<20, false)}},
		"refused, and the last good limit is followed": {
			refused, metrics.Configured{Section: "ba7816bf8f01", Partitions: system(512<<20, false), Problems: []metrics.Problem{metrics.Refused}},
		},
		"in the kubelet's file, and below the usage": {
			kubelets, metrics.Configured{Section: "ba7816bf8f01", Partitions: system(512<<20, true), Problems: []metrics.Problem{metrics.KubeletsFile}},
		},
		"switched off": {
			decided(decision.Partition{Name: unitname.System, Off: true}), metrics.Configured{Section: "ba7816bf8f01", Partitions: system(0, false)},
		},
		"with a workload type": {
			typed, metrics.Configured{Section: "ba7816bf8f01", Partitions: system(512<<20, false), Workloads: typed.Workloads},
		},
	} {
		if got := configurationMetrics(test.from); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v; want %+v", name, got, test.want)
		}
	}
}
