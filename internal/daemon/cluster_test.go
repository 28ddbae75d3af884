package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/cluster"
	"node-partition.io/node-partition/internal/daemon/metrics"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/tests/fakeapi"
)

// TestKillOccurrences: a kill is recorded on the pod, and on the node if no pod is known.
func TestKillOccurrences(t *testing.T) {
	t.Parallel()
	pods := []evict.Pod{
		{PodMeta: evict.PodMeta{UID: "1", Namespace: "kube-system", Name: "dns", Cgroup: "a"}},
		{PodMeta: evict.PodMeta{UID: "2", Namespace: "kube-system", Name: "log", Cgroup: "b"}},
		{PodMeta: evict.PodMeta{UID: "3", Name: "(pod 3)", Cgroup: "c"}, Unknown: true},
	}
	onNode := []cluster.Occurrence{{Reason: reasonKilled, Message: killedUnknown}}
	for name, test := range map[string]struct {
		killed map[string]uint64
		want   []cluster.Occurrence
	}{
		"a pod":                  {map[string]uint64{"b": 2}, []cluster.Occurrence{{Pod: kubeapi.Pod{UID: "2", Namespace: "kube-system", Name: "log"}, Reason: reasonKilled, Message: killedPod}}},
		"an unknown pod":         {map[string]uint64{"c": 1}, onNode},
		"a pod that has ended":   {map[string]uint64{"d": 1}, onNode},
		"a pod that had no time": {nil, onNode},
	} {
		if got := killOccurrences(test.killed, pods); !slices.Equal(got, test.want) {
			t.Errorf("%s: %+v; want %+v", name, got, test.want)
		}
	}
}

// TestClusterKilledSince: kills at another limit than the partition's are not recorded.
func TestClusterKilledSince(t *testing.T) {
	t.Parallel()
	root := cgroups.FS(t.TempDir())
	system := root.Path(partition.CgroupPath(partition.System.Slice()))
	if err := os.MkdirAll(system, 0o755); err != nil {
		t.Fatal(err)
	}
	c := &clusterEvents{
		kills: cluster.Kills{Cgroups: root, Partition: partition.System}, pods: func() []evict.Pod { return nil },
	}
	for kills, limit := range []evict.KilledAt{evict.AtPartition, evict.AtPartition, evict.AtPod} {
		text := fmt.Appendf(nil, "oom %d\noom_kill %d\n", kills, kills)
		if err := os.WriteFile(filepath.Join(system, "memory.events"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := c.killedSince(limit); len(got) > 0 != (kills == 1) {
			t.Errorf("%d kills, the last at %v: %+v", kills, limit, got)
		}
	}
}

// clusterOf returns a daemon that records in an API server, and the results of its recorder, which
// runs until the test ends.
func clusterOf(t *testing.T, api *cluster.Reporter) (m *monitor, results chan cluster.Result) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	results = make(chan cluster.Result, 10)
	m = &monitor{recorder: cluster.NewRecorder(api, log, func(r cluster.Result, _ int) { results <- r })}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = m.recorder.Run(ctx) // it ends with its context
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return m, results
}

// TestClusterOnNode: faults without a pod are events on the node. Equal ones are counted, because
// their text has no figures.
func TestClusterOnNode(t *testing.T) {
	t.Parallel()
	api := fakeapi.New(t, httptest.NewServer)
	c, results := clusterOf(t, cluster.NewReporter(host.This(), api.NewKubeconfig(t), slog.New(slog.DiscardHandler)))
	next := func(want cluster.Result) {
		t.Helper()
		if got := <-results; got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
	order := []evict.Candidate{{Pod: evict.Pod{PodMeta: evict.PodMeta{Name: "etcd"}}, Skip: evict.SkipStatic}}
	faults := c.recorded(partition.System, nil)
	faults.NoCandidate(evict.Decision{Order: order, Available: 5 * mebi})
	next(cluster.Created)
	faults.NoCandidate(evict.Decision{Order: order, Available: 4 * mebi})
	next(cluster.Repeated)
	c.recorder.Record(cluster.Occurrence{Reason: reasonInvalid, Message: "memoryLimit: bad\nmore"})
	next(cluster.Created)
	events := api.Happened()
	if len(events) != 2 {
		t.Fatalf("%d events; want 2", len(events))
	}
	if e := events[0]; e.InvolvedObject.Kind != "Node" || e.Reason != reasonNoCandidate || e.Count != 2 || !strings.Contains(e.Message, "all its pods are protected") {
		t.Errorf("%+v", e)
	}
	if e := events[1]; e.InvolvedObject.Kind != "Node" || e.Reason != reasonInvalid || !strings.Contains(e.Message, "memoryLimit: bad") || e.Type != v1.EventTypeWarning {
		t.Errorf("%+v", e)
	}
}

// TestClusterNone: without a kubeconfig, and if nothing is asked for, nothing is recorded, and the
// kubelet waits for nothing.
func TestClusterNone(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]node.Options{
		"no kubeconfig": {Events: true, NodeStatus: true, Eviction: node.EvictionFlags{Kubeconfig: node.KubeconfigNone}},
		"not asked for": {Eviction: node.EvictionFlags{Kubeconfig: node.KubeconfigAuto}},
	} {
		m := &monitor{options: Options{Options: o}}
		if m.newRecorder() != nil {
			t.Errorf("%s: something is recorded", name)
		}
		if err := m.marked(); err != nil {
			t.Errorf("%s: the kubelet waits: %v", name, err)
		}
	}
	m := &monitor{options: Options{Options: node.Options{
		Events: true, Eviction: node.EvictionFlags{Kubeconfig: node.KubeconfigAuto},
	}}}
	m.metrics = &metrics.Metrics{}
	if m.newRecorder() == nil {
		t.Error("no events by default")
	}
}

// TestClusterPartition: the events about another partition name it. Their reasons differ from the
// reasons of the system partition, which programs select by.
func TestClusterPartition(t *testing.T) {
	t.Parallel()
	api := fakeapi.New(t, httptest.NewServer)
	c, results := clusterOf(t, cluster.NewReporter(host.Node{}, api.NewKubeconfig(t), slog.New(slog.DiscardHandler)))
	system := c.recorded(partition.System, nil)
	other := c.recorded("telemetry", nil)
	if other.kills.Partition != "telemetry" {
		t.Errorf("kills are read of %s", other.kills.Partition)
	}
	none := evict.Decision{}
	system.NoCandidate(none)
	other.NoCandidate(none)
	<-results
	<-results
	events := api.Happened()
	if len(events) != 2 {
		t.Fatalf("%d events; want 2", len(events))
	}
	if e := events[0]; e.Reason != reasonNoCandidate || !strings.Contains(e.Message, "the system partition is low") {
		t.Errorf("%+v", e)
	}
	if e := events[1]; e.Reason != "PartitionNoEvictionCandidate" || !strings.Contains(e.Message, "partition telemetry is low") {
		t.Errorf("%+v", e)
	}
	for text, want := range map[string]string{
		killedPod: "at the memory limit of partition telemetry", killedUnknown: "at the memory limit of partition telemetry",
	} {
		killed := (&clusterEvents{partition: "telemetry"}).about(cluster.Occurrence{Reason: reasonKilled, Message: text})
		if killed.Reason != "PartitionOOMKilling" || !strings.Contains(killed.Message, want) {
			t.Errorf("%+v", killed)
		}
	}
}
