package evict

import (
	"maps"
	"sync"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/partition"
)

const telemetry partition.Name = "telemetry"

// beside returns telemetry, a second partition on the node, which has 550 of 1000 MiB in use.
func (n *node) beside() *node {
	n.t.Helper()
	other := newNodeOf(n.t, n.disk, telemetry)
	n.t.Cleanup(func() { other.cancel() })
	other.start(sized("collector", 0, 0, 0), 200)
	other.start(sized("shipper", 0, 0, 350), 350)
	return other
}

// bothRun runs the managers of two partitions at the same time for a while.
func bothRun(a *node, ofA *Manager, b *node, ofB *Manager, d time.Duration) {
	var group sync.WaitGroup
	group.Go(func() { a.run(ofA, d) })
	group.Go(func() { b.run(ofB, d) })
	group.Wait()
}

// TestPartitions: each of two managers reads its own slice, evicts and marks its own pods, and has
// its own file.
func TestPartitions(t *testing.T) {
	bubble(t, func(n *node) {
		other := n.beside()
		m, ofOther := n.started(hardOnly), other.started(hardOnly)
		bothRun(n, m, other, ofOther, 4*time.Second)
		n.expect("kill greedy.c1", "kill greedy.c2", "evict greedy", "confirm greedy")
		other.expect()
		other.expectEvents()
		if r := m.Report(); r.Partition != partition.System || r.Memory.Current != 450*mi {
			n.t.Errorf("reported %+v", r)
		}
		if r := ofOther.Report(); r.Partition != telemetry || r.Memory.Current != 550*mi {
			n.t.Errorf("reported %+v", r)
		}
		if !maps.Equal(n.marked, map[string]bool{"greedy": true}) || len(other.marked) != 0 {
			n.t.Errorf("marked are %v and %v", n.marked, other.marked)
		}
		n.takeEvents()
		other.set(func() { other.pod("collector").containers[0].uses = 600 * mi })
		bothRun(n, m, other, ofOther, 4*time.Second)
		n.expect()
		n.expectEvents()
		other.expect("kill collector.c1", "evict collector", "confirm collector")
		if !maps.Equal(n.marked, map[string]bool{"greedy": true}) || !maps.Equal(other.marked, map[string]bool{"collector": true}) {
			n.t.Errorf("marked are %v and %v", n.marked, other.marked)
		}
		for _, of := range []struct {
			node *node
			pod  string
		}{{n, "greedy"}, {other, "collector"}} {
			h := of.node.history()
			if len(h.Open) != 0 || len(h.Last) != 1 || h.Last[0].UID != of.pod {
				n.t.Errorf("the state of %s is %+v", of.node.name, h)
			}
		}
	})
}

// TestPartitionName: texts name the partition, and texts about the system partition stay the same.
func TestPartitionName(t *testing.T) {
	t.Parallel()
	for name, want := range map[partition.Name]string{partition.System: "the partition", telemetry: "partition telemetry"} {
		if got := (&Options{Partition: name}).name(); got != want {
			t.Errorf("%s: %q; want %q", name, got, want)
		}
		m := &Manager{Options: &Options{Partition: name}}
		m.polled.at = time.Now().Add(-time.Hour)
		if err := m.Alive(); err == nil || err.Error() != "eviction: the memory of "+want+" was not polled for 1h0m0s" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
