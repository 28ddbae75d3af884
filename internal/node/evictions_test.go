package node

import (
	"testing"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/partition"
)

// TestEvictionFile: the file of the system partition has no name in its own, and no two partitions
// share one.
func TestEvictionFile(t *testing.T) {
	t.Parallel()
	for partition, want := range map[partition.Name]string{
		partition.System: "/run/node-partition/monitor/evictions.json",
		"telemetry":      "/run/node-partition/monitor/evictions-telemetry.json",
		"telemetry-edge": "/run/node-partition/monitor/evictions-telemetry-edge.json",
	} {
		if file := EvictionFile(host.This(), partition); string(file) != want {
			t.Errorf("%s: %s; want %s", partition, file, want)
		}
	}
}
