package daemon

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/tests/fakenode"
)

// TestTakenWhileEvicting: the kubelet takes the system partition while a container of an eviction
// still runs. The partition stays until that eviction is over, and its slices and its state file
// are not left to a later run: beside another partition, and as the only one, when the daemon ends.
func TestTakenWhileEvicting(t *testing.T) {
	t.Parallel()
	for name, sections := range map[string]string{
		"beside another": twoSections, "alone": strings.SplitAfter(twoSections, "\n")[0],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, n, calls, log := built(t)
			n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration(sections))
			if !strings.Contains(sections, "telemetry: ") {
				n.RemoveAll(partition.Name("telemetry").Cgroup())
			}
			n.Generate(0)
			n.Write(partition.System.Cgroup()+"/memory.current", "67000000")
			n.Write(partition.System.Cgroup()+"/memory.stat", "inactive_file 0")
			container := partition.System.Cgroup() + "/pod/one.scope"
			n.Write(container+"/cgroup.events", "populated 1")
			n.Write(container+"/cgroup.kill", "")
			file := string(node.EvictionFile(m.options.Node, partition.System))
			open := evict.Eviction{
				PodMeta: evict.PodMeta{UID: "u-1", Cgroup: partition.CgroupPath(partition.System.Slice()) + "/pod"},
				Verdict: evict.Verdict{Time: time.Now(), Threshold: evict.Hard, Method: evict.Restart},
				Containers: []evict.Container{{
					ID: "one", Cgroup: partition.CgroupPath(partition.System.Slice()) + "/pod/one.scope",
				}},
			}
			n.Write("/run/node-partition/monitor/kept", "")
			history := evict.History{Version: 1, Open: []evict.Eviction{open}}
			if err := host.WriteState(file, history, 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			ended, end := context.WithCancel(ctx)
			m.cancel = end
			c, err := node.Load(m.options.Node, podmove.Auto)
			if err != nil {
				t.Fatal(err)
			}
			m.follow(c)
			run := make(chan struct{})
			go func() { _ = m.partitions.run(ctx); close(run) }()
			defer func() { cancel(); <-run }()
			system := m.partitions.of(partition.System)
			becomes := func(count int) {
				t.Helper()
				for system.evictor.Open() != count {
					select {
					case <-ctx.Done():
						t.Fatalf("%d evictions are open; want %d\n%s", system.evictor.Open(), count, log)
					case <-time.After(time.Millisecond):
					}
				}
			}
			becomes(1)
			n.RunKubelet("--feature-gates=NodeSystemPartition=true")
			m.reload()
			m.comeAndGo(nil)
			if m.partitions.of(partition.System) == nil || ended.Err() != nil {
				t.Fatal("the partition has ended before its eviction")
			}
			if mode := m.reconciler.Config().Mode; (mode == podmove.Never) != (name == "alone") {
				t.Errorf("pods are moved with %q meanwhile", mode)
			}
			m.removePartitions(t.Context()) // the last one of ours ends
			if err := os.RemoveAll(filepath.Join(n.Root, partition.System.Cgroup(), "pod")); err != nil {
				t.Fatal(err)
			}
			becomes(0)
			m.comeAndGo(nil)
			others := []partition.Name{"telemetry"}[:strings.Count(sections, "telemetry: ")]
			if got := m.partitions.names(); !slices.Equal(got, others) || (ended.Err() != nil) != (len(others) == 0) {
				t.Errorf("the daemon has %v and has ended: %v; want %v", got, ended.Err(), others)
			}
			if _, err := os.Stat(file); err == nil {
				t.Error("the state of its evictions is left")
			}
			if slices.ContainsFunc(calls.calls, func(call string) bool { return strings.Contains(call, "kubepods-system") }) {
				t.Errorf("did %q with slices of the kubelet", calls.calls)
			}
		})
	}
}
