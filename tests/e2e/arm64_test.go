//go:build node

package e2e

import (
	"context"
	"testing"

	"node-partition.io/node-partition/tests/lab"
)

// TestArm64: on a node of another architecture the partition is up before the kubelet, members are
// placed when they are created, and a leaking one is evicted before the kernel kills in the
// partition. No other pod is touched. The node is made by name alone: make test-arm64.
func TestArm64(t *testing.T) {
	onEach(t, kinds([]string{"arm64"}), func(t *testing.T, flavour string) {
		n, control := bootsJoined(t, flavour, programsFor(t, flavour))
		want(t, n, "uname -m", "aarch64")
		placedAtBoot(t, n, flavour, 0)
		evictsLeaker(t, n, control)
	})
}

// evictsLeaker: check finds no error, a leaking member is evicted and nobody else, and no unit has
// failed.
func evictsLeaker(t *testing.T, n *lab.Node, control *lab.ControlPlane) {
	t.Helper()
	want(t, n, monitorPath+" check --move=auto | grep -c ^error || true", "0")
	e := &evictor{Node: n, control: control, leakers: map[string]bool{}}
	e.neighbours(t)
	e.slowGrowth(t, 1)
	wantMetric(t, n, `nodepartition_evictions_total{dry_run="false",method="evict",partition="system",threshold="hard"}`, 1)
	want(t, n, "systemctl --failed --plain --no-legend", "")
}

// bootsJoined boots a node of a cluster with the programs and a partition, which is up before the
// kubelet.
func bootsJoined(t *testing.T, flavour string, programs []lab.File) (*lab.Node, *lab.ControlPlane) {
	t.Helper()
	control := lab.ControlPlaneForTest(t)
	n := lab.ForTest(t, lab.Options{
		Flavour: flavour, ControlPlane: control, Files: append(programs, kubeletConfig(t, evictionSection)),
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := n.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	partitioned(t, n)
	startedBeforeKubelet(t, n)
	return n, control
}

// programsFor is programs, for the architecture of a flavour.
func programsFor(t *testing.T, flavour string) []lab.File {
	t.Helper()
	f, err := lab.FlavourByName(flavour)
	if err != nil {
		t.Fatal(err)
	}
	files, err := buildPrograms(t.TempDir(), f.Arch)
	if err != nil {
		t.Fatal(err)
	}
	return files
}
