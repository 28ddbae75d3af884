package daemon

import (
	"errors"
	"reflect"
	"testing"

	"nodepartition/internal/daemon/metrics"
	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/membership"
	"nodepartition/internal/node"
	"nodepartition/internal/thresholds"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/podmove"
	"nodepartition/pkg/slices/config"
	"nodepartition/pkg/slices/decision"
)

// TestConfigurationMetrics: the metrics are of the configuration that is followed. While the files
// are not that, they do not say whether a trial runs.
func TestConfigurationMetrics(t *testing.T) {
	t.Parallel()
	limited := &thresholds.Thresholds{Limit: 512 << 20}
	system := func(limit uint64, lowering bool) map[unitname.PartitionName]metrics.ConfiguredPartition {
		return map[unitname.PartitionName]metrics.ConfiguredPartition{unitname.System: {MemoryLimit: limit, Lowering: lowering}}
	}
	files := &kubeletconfig.Merged{System: kubeletconfig.Section{JSON: []byte("{}"), File: kubeletconfig.TrialPath}}
	const digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	on, off := podmove.PartitionPolicy{Name: unitname.System}, podmove.PartitionPolicy{Name: unitname.System, Off: true}
	for name, test := range map[string]struct {
		from node.Followed
		want metrics.Configured
	}{
		"good": {
			node.Followed{Section: digest, Partitions: []node.FollowedPartition{{PartitionPolicy: on, Thresholds: limited}}, Desired: &node.Desired{Config: &config.Config{Kubelet: files}}},
			metrics.Configured{Section: "ba7816bf8f01", OnTrial: true, Partitions: system(512<<20, false)},
		},
		"refused, and the last good limit is followed": {
			node.Followed{Section: digest, Partitions: []node.FollowedPartition{{PartitionPolicy: on, Thresholds: limited}}, Desired: &node.Desired{Config: &config.Config{Kubelet: files}}, Problem: errors.New("memoryLimit: lots")},
			metrics.Configured{Section: "ba7816bf8f01", Partitions: system(512<<20, false), Problems: []metrics.Problem{metrics.Refused}},
		},
		"edited, in the kubelet's file, and below the usage": {
			node.Followed{Section: digest, Partitions: []node.FollowedPartition{{PartitionPolicy: on, Thresholds: limited, Deferral: &decision.Deferral{}}}, NotApplied: true, Desired: &node.Desired{Config: &config.Config{Kubelet: files, KubeletsFile: "move it"}}},
			metrics.Configured{Section: "ba7816bf8f01", Partitions: system(512<<20, true), Problems: []metrics.Problem{metrics.NotApplied, metrics.KubeletsFile}},
		},
		"switched off": {
			node.Followed{Section: digest, Partitions: []node.FollowedPartition{{PartitionPolicy: off, Thresholds: limited}}, Desired: &node.Desired{Config: &config.Config{Kubelet: files}}},
			metrics.Configured{Section: "ba7816bf8f01", OnTrial: true, Partitions: system(0, false)},
		},
		"with a workload type": {
			node.Followed{
				Partitions: []node.FollowedPartition{{PartitionPolicy: on}}, Desired: &node.Desired{},
				Workloads: []membership.Workload{{Type: "management", Partition: unitname.System}},
			},
			metrics.Configured{Partitions: system(0, false), Workloads: []membership.Workload{{Type: "management", Partition: unitname.System}}},
		},
	} {
		if got := configurationMetrics(test.from, false); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v; want %+v", name, got, test.want)
		}
	}
}
