package daemon

import (
	"testing"
	"time"

	"node-partition.io/node-partition/internal/thresholds"
	"node-partition.io/node-partition/pkg/slices/decision"
	"node-partition.io/node-partition/tests/fakenode"
)

// section returns a configuration with a partition of 400Mi and more fields.
func section(fields string) string {
	return fakenode.Configuration("systemPartition:\n  memoryLimit: 400Mi\n  namespaces: [kube-system]\n" + fields)
}

// last returns the thresholds that the generator has decided.
func (n *fakeNode) last() *thresholds.Thresholds {
	n.t.Helper()
	decided, err := decision.Read(n.Root)
	if err != nil {
		n.t.Fatal(err)
	}
	return decided.Partitions[0].Eviction
}

// TestThresholds: the generator decides the thresholds of a valid configuration.
func TestThresholds(t *testing.T) {
	t.Parallel()
	n := newNode(t, "")
	for _, test := range []struct {
		fields string
		want   thresholds.Thresholds
	}{
		{"", thresholds.Thresholds{Hard: 32 * mebi, MaxPodGrace: -1}},
		{"  evictionHard: {memory.available: 10%}\n", thresholds.Thresholds{Hard: 40 * mebi, MaxPodGrace: -1}},
		{"  evictionHard: {memory.available: 48Mi}\n", thresholds.Thresholds{Hard: 48 * mebi, MaxPodGrace: -1}},
		{"  evictionHard: {memory.available: 0%}\n", thresholds.Thresholds{MaxPodGrace: -1}},
		{
			// No evictionMaxPodGracePeriod: the grace period of the pod.
			"  evictionSoft: {memory.available: 25%}\n  evictionSoftGracePeriod: {memory.available: 1m30s}\n",
			thresholds.Thresholds{Hard: 32 * mebi, Soft: 100 * mebi, SoftGrace: 90 * time.Second, MaxPodGrace: -1},
		},
		{
			"  evictionSoft: {memory.available: 25%}\n  evictionSoftGracePeriod: {memory.available: 1m30s}\n  evictionMaxPodGracePeriod: 20\n" +
				"  evictionMinimumReclaim: {memory.available: 5Mi}\n",
			thresholds.Thresholds{Hard: 32 * mebi, Soft: 100 * mebi, SoftGrace: 90 * time.Second, MaxPodGrace: 20 * time.Second, MinimumReclaim: 5 * mebi},
		},
	} {
		n.Write("/var/lib/kubelet/config.yaml", section(test.fields))
		n.Generate(0)
		test.want.Limit = 400 * mebi
		if got := n.last(); got == nil || *got != test.want {
			t.Errorf("%q: %+v; want %+v", test.fields, got, test.want)
		}
	}
}

// TestLastGoodThresholds: the thresholds survive an invalid configuration, and a restart of the
// service.
func TestLastGoodThresholds(t *testing.T) {
	t.Parallel()
	n := newNode(t, section("  evictionHard: {memory.available: 10%}\n"))
	n.Partition("419430400")
	n.Serve(&fakenode.Runtime{})
	n.ServePods()
	hard := func(what string, want uint64, mode string) {
		t.Helper()
		if e := n.status().Partitions[0].Eviction; e == nil || e.HardBytes != want || e.Mode != mode {
			t.Errorf("%s: %+v; want %s, below %d", what, e, mode, want)
		}
	}
	hard("valid", 40*mebi, "on")
	n.follow()
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Broken)
	n.Generate(1)
	hard("broken", 40*mebi, "on")
	n.follow()
	hard("broken, after a restart", 40*mebi, "on")

	// Without a section no memory is guarded, whatever the earlier thresholds.
	n.Partition("419430400")
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration(""))
	n.Generate(0)
	hard("no section", 0, "off")
	n.Write("/var/lib/kubelet/config.yaml", section(""))
	n.Generate(0)
	n.Write("/proc/cmdline", "quiet node_partition=0")
	hard("switched off", 0, "off")
	n.Write("/proc/cmdline", "quiet")
	hard("valid again", 32*mebi, "on")
}
