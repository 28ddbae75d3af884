package node_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/slices/decision"
	"node-partition.io/node-partition/tests/fakenode"
	"node-partition.io/node-partition/tests/testkit"
)

const kubeletFile = "/var/lib/kubelet/config.yaml"

// TestDesiredNotApplied: an edit is noticed until the generator has run, and taking it back ends
// that, too. A decision that cannot be read is another reason.
func TestDesiredNotApplied(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Valid("kube-system"))
	want := func(when string, want error) {
		t.Helper()
		if d, err := node.ReadDesired(n.Host()); err != nil || !errors.Is(d.NotApplied, want) {
			t.Errorf("%s: %v, %v; want %v", when, d.NotApplied, err, want)
		}
	}
	want("decided", nil)
	n.Write(kubeletFile, fakenode.Valid("monitoring"))
	want("edited", node.ErrNotApplied)
	n.Write(kubeletFile, fakenode.Valid("kube-system"))
	want("taken back", nil)
	n.Write(kubeletFile, fakenode.Valid("monitoring"))
	n.Generate(0)
	want("reloaded", nil)
	n.RemoveAll("/run/node-partition")
	want("without a decision", decision.ErrNone)
	n.Write(kubeletFile, fakenode.Configuration(""))
	want("on a node without a partition", nil)
	n.Partition("67108864")
	want("while it has one", decision.ErrNone)
	n.Write("/proc/cmdline", "quiet node_partition=0")
	want("switched off", nil)
}

// TestLoadOff: a partition that is not made any more is off while its cgroup is there, over any
// number of reloads, beside others and alone. So is it with the off switch, and without a decision
// it is not.
func TestLoadOff(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Configuration("workloadPartitions: {batch: {memoryLimit: 64Mi, namespaces: [batch]}, telemetry: {memoryLimit: 64Mi, namespaces: [monitoring]}}\n"))
	n.Write("/sys/fs/cgroup/kubepods.slice/kubepods-batch.slice/cgroup.events", "populated 1")
	n.Write("/sys/fs/cgroup/kubepods.slice/kubepods-telemetry.slice/cgroup.events", "populated 1")
	want := func(when string, want ...string) {
		t.Helper()
		f, err := node.Load(n.Host(), podmove.Auto)
		got := make([]string, 0, len(f.Partitions))
		for _, p := range f.Partitions {
			state := "on"
			if p.Off {
				state = "off"
			}
			got = append(got, string(p.Name)+" "+state)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", when, got, err, want)
		}
	}
	want("both", "batch on", "telemetry on")
	n.Write(kubeletFile, fakenode.Configuration("workloadPartitions: {telemetry: {memoryLimit: 64Mi, namespaces: [monitoring]}}\n"))
	for range 3 {
		n.Generate(0)
		want("one is off", "telemetry on", "batch off")
	}
	n.Write(kubeletFile, fakenode.Configuration(""))
	for range 3 {
		n.Generate(0)
		want("both are off", "batch off", "telemetry off")
	}
	if !node.AnyActive(n.Host()) {
		t.Error("a partition that is off is active while its cgroup is there")
	}
	n.RemoveAll("/run/node-partition")
	if f, err := node.Load(n.Host(), podmove.Auto); !errors.Is(err, decision.ErrNone) || len(f.Partitions) != 0 {
		t.Errorf("without a decision: %+v, %v", f.Partitions, err)
	}
	n.Write("/proc/cmdline", "quiet node_partition=0")
	want("with the off switch", "system off")
}

// TestLoadKubelets: the partition that the kubelet makes is neither on nor off, whether the gate is
// in its configuration or on its command line.
func TestLoadKubelets(t *testing.T) {
	t.Parallel()
	for _, others := range []string{"", "workloadPartitions: {batch: {memoryLimit: 64Mi, namespaces: [batch]}, management: {partition: system}}\n"} {
		sections := "systemPartition: {memoryLimit: 64Mi, namespaces: [kube-system]}\n" + others
		gate := fakenode.Configuration(sections + "featureGates: {NodeSystemPartition: true}\n")
		gated, younger := fakenode.New(t, gate), fakenode.New(t, fakenode.Configuration(sections))
		flag := fakenode.New(t, fakenode.Configuration(sections))
		flag.RunKubelet("--feature-gates=NodeSystemPartition=true")
		for name, n := range map[string]*fakenode.Node{"configuration": gated, "command line": flag, "configuration since the reload": younger} {
			n.Partition("67108864")
			if n == younger {
				n.Write(kubeletFile, gate)
				n.RunKubelet("")
			}
			f, err := node.Load(n.Host(), podmove.Auto)
			want := 0
			if others != "" {
				want = 1
			}
			if err != nil || f.ManagedByKubelet == "" || len(f.Partitions) != want ||
				slices.ContainsFunc(f.Workloads, func(w partition.Workload) bool { return w.Partition == "system" }) {
				t.Errorf("%s: %+v, %v; want %d partitions", name, f.Partitions, err, want)
			}
		}
	}
}

// TestReadDesiredFacts: the files of another node that lack what a section is checked against say
// so, and no decision is missed there.
func TestReadDesiredFacts(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	testkit.WriteFile(t, filepath.Join(root, kubeletFile), fakenode.Valid("kube-system"))
	n := host.Below(root)
	n.Foreign = true
	if d, err := node.ReadDesired(n); !errors.Is(err, node.ErrFacts) || d.NotApplied != nil {
		t.Errorf("%v, %v; want that the section is not checked", err, d.NotApplied)
	}
}
