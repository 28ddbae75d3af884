package main

import (
	"strings"
	"testing"

	"node-partition.io/node-partition/pkg/slices"
	"node-partition.io/node-partition/pkg/slices/decision"
	"node-partition.io/node-partition/tests/fakenode"
)

// TestDeferralRemains: a deferred limit stays deferred until the generator writes it, whatever the
// usage is when the monitor looks.
func TestDeferralRemains(t *testing.T) {
	t.Parallel()
	n := whole(t)
	n.Partition("134217728")
	n.Write(fakenode.SystemCgroup+"/memory.current", "104857600")
	n.Write("/sys/fs/cgroup/system.slice/partition-monitor.service/cgroup.events", "populated 1\nfrozen 0")
	n.Write(slices.EvictsFile, "")
	if said := n.Generate(0); !strings.Contains(said, "keeping the present limit of 134217728 bytes") {
		t.Fatalf("%q", said)
	}
	const waits = "warning  slice: kubepods-system.slice: memory.max is 134217728; the configured 67108864 takes effect when partition-monitor has evicted down to it"
	n.check(t, exitOK, []string{waits}, "--listen=")
	n.Write(fakenode.SystemCgroup+"/memory.current", "50331648")
	n.check(t, exitOK, []string{waits}, "--listen=")
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Broken)
	n.Generate(1)
	if d, err := decision.Read(n.Root); err != nil || d.Partitions[0].Deferral == nil || d.Partitions[0].Deferral.Limit != 67108864 || d.Partitions[0].Deferral.InForce != 134217728 {
		t.Errorf("%+v, %v; want the deferral after a broken configuration", d, err)
	}
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Valid("kube-system"))
	n.Generate(0)
	n.check(t, exitProblem, []string{
		"error    slice: kubepods-system.slice: memory.max is 134217728; the configuration asks for 67108864",
	}, "--listen=")
}

// running returns a node whose monitor follows kube-system, as the generator has decided.
func running(t *testing.T) *fakeNode {
	t.Helper()
	n := newNode(t, fakenode.Valid("kube-system"))
	n.Partition("67108864")
	n.Serve(&fakenode.Runtime{})
	n.ServePods()
	n.Generate(0)
	n.follow()
	return n
}
