package node

import (
	"testing"

	"nodepartition/internal/host"
	"nodepartition/internal/unitname"
)

// TestEvictionFiles: the files of the system partition have kept their names, and no two partitions
// share a file.
func TestEvictionFiles(t *testing.T) {
	t.Parallel()
	for partition, want := range map[unitname.PartitionName][2]string{
		unitname.System:  {"/run/node-partition/monitor/evictions.json", "/run/node-partition/monitor/shortage.json"},
		"telemetry":      {"/run/node-partition/monitor/evictions-telemetry.json", "/run/node-partition/monitor/shortage-telemetry.json"},
		"telemetry-edge": {"/run/node-partition/monitor/evictions-telemetry-edge.json", "/run/node-partition/monitor/shortage-telemetry-edge.json"},
	} {
		if files := EvictionFiles(host.This(), partition); string(files.Store) != want[0] || files.Shortage != want[1] {
			t.Errorf("%s: %+v; want %v", partition, files, want)
		}
	}
}
