package daemon

import (
	"log/slog"
	"slices"
	"testing"

	"node-partition.io/node-partition/internal/cluster"
	"node-partition.io/node-partition/internal/daemon/metrics"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/systemd"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// TestNewPartition: the partitions of a node have the evictors, files, events and memories of their
// own, and share the table of pods, in which neither removes the marks of the other.
func TestNewPartition(t *testing.T) {
	t.Parallel()
	m := &monitor{
		options: Options{Options: node.Options{Node: host.Below(t.TempDir())}}, log: slog.New(slog.DiscardHandler),
		metrics: metrics.New(metrics.Options{}), signals: podmove.NewSignals(), units: &systemd.Client{}, runtime: &node.Runtime{},
		kubelet: &kubelet.Watcher{},
	}
	m.api = cluster.NewReporter(m.options.Node, node.KubeconfigNone, m.log)
	m.burst = 3 << 30
	m.keep(followed(partition.System, "telemetry"))
	system, other := m.partitions.of(partition.System), m.partitions.of("telemetry")
	if system.evictor.Partition != partition.System || other.evictor.Partition != "telemetry" || other.remembered.Partition != "telemetry" {
		t.Errorf("the evictors are of %s and %s", system.evictor.Partition, other.evictor.Partition)
	}
	if system.evictor.Store == other.evictor.Store {
		t.Errorf("the evictors share the file %s", system.evictor.Store)
	}
	if system.evictor.Burst != 3<<30 || other.evictor.Burst != 3<<30 {
		t.Errorf("the evictors assume bursts of %g and %g bytes per second", system.evictor.Burst, other.evictor.Burst)
	}
	if events, ok := other.evictor.Events.(evictionEvents); !ok || events.partition != "telemetry" || events.cluster.recorder != nil {
		t.Errorf("the events are %v; want the metrics and the journal of the partition", other.evictor.Events)
	}
	if got := m.partitions.names(); !slices.Equal(got, []partition.Name{partition.System, "telemetry"}) {
		t.Errorf("the node has %v", got)
	}
	m.keep(followed("telemetry", "batch", partition.System))
	if got := m.partitions.names(); !slices.Equal(got, []partition.Name{partition.System, "telemetry", "batch"}) ||
		m.partitions.of("telemetry") != other {
		t.Errorf("then the node has %v; want batch too, and the others as they are", got)
	}
}

// keep makes the partitions of a configuration, and ends the others.
func (m *monitor) keep(c node.Followed) {
	settings, _ := m.settings(c)
	m.keepPartitions(c, settings)
}

// followed returns a configuration with these partitions.
func followed(names ...partition.Name) node.Followed {
	var f node.Followed
	for _, name := range names {
		f.Partitions = append(f.Partitions, decision.Partition{Name: name})
	}
	return f
}
