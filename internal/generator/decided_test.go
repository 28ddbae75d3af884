package generator

import (
	"path/filepath"
	"slices"
	"testing"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// decidedOff returns the names of the partitions that are off by the decision in force.
func (n changing) decidedOff() []partition.Name {
	n.t.Helper()
	d, err := decision.Read(n.root)
	if err != nil {
		n.t.Fatal(err)
	}
	var off []partition.Name
	for _, p := range d.Partitions {
		if p.Off {
			off = append(off, p.Name)
		}
	}
	return off
}

// TestDecidesNothing: a slice that is stopped by hand leaves nothing to decide about. That is a
// decision, too: a monitor that runs follows it, and knows that all is off.
func TestDecidesNothing(t *testing.T) {
	n := newChanging(t)
	n.write("/etc/default/node-partition", "PARTITION_WATCH=no\n")
	n.edit(head)
	n.write(partition.System.Cgroup()+"/cgroup.procs", "")
	n.reload()
	if off := n.decidedOff(); !slices.Equal(off, []partition.Name{partition.System}) {
		t.Fatalf("off are %q", off)
	}
	n.remove(partition.System.Cgroup() + "/cgroup.procs")
	n.remove(partition.System.Cgroup())
	n.reload()
	if off := n.decidedOff(); len(off) > 0 {
		t.Errorf("off are %q", off)
	}
}

// TestDecisionUnreadable: after a decision that cannot be read, a partition that was removed is off
// as before.
func TestDecisionUnreadable(t *testing.T) {
	n := newChanging(t)
	const workload = head + "workloadPartitions: {batch: {memoryLimit: 1Gi, namespaces: [batch]}}\n"
	n.edit(workload)
	n.reload()
	n.write(partition.Name("batch").Cgroup()+"/cgroup.procs", "")
	for _, step := range []string{"removed", "and still"} {
		n.write(filepath.Join("/run/node-partition/units", decision.FileName), "{")
		n.edit(head)
		n.reload()
		if off := n.decidedOff(); !slices.Equal(off, []partition.Name{"batch"}) {
			t.Errorf("%s: off are %q", step, off)
		}
	}
}
