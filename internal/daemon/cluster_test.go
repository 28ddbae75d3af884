package daemon

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/cluster"
	"node-partition.io/node-partition/internal/daemon/metrics"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/tests/fakeapi"
)

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
	faults := clusterEvents{c.recorder, partition.System}
	faults.NoCandidate(evict.Decision{Order: order, Available: 5 * mebi})
	next(cluster.Created)
	faults.NoCandidate(evict.Decision{Order: order, Available: 4 * mebi})
	next(cluster.Repeated)
	faults.KernelKilled(evict.AtPod) // is no fault of the partition
	faults.KernelKilled(evict.AtPartition)
	next(cluster.Created)
	c.recorder.Record(cluster.Occurrence{Reason: reasonInvalid, Message: "memoryLimit: bad\nmore"})
	next(cluster.Created)
	events := api.Happened()
	if len(events) != 3 {
		t.Fatalf("%d events; want 3", len(events))
	}
	if e := events[0]; e.InvolvedObject.Kind != "Node" || e.Reason != reasonNoCandidate || e.Count != 2 || !strings.Contains(e.Message, "all its pods are protected") {
		t.Errorf("%+v", e)
	}
	if e := events[1]; e.Reason != reasonKilled || !strings.Contains(e.Message, "at the memory limit of the system partition") {
		t.Errorf("%+v", e)
	}
	if e := events[2]; e.InvolvedObject.Kind != "Node" || e.Reason != reasonInvalid || !strings.Contains(e.Message, "memoryLimit: bad") || e.Type != v1.EventTypeWarning {
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
	none, other := evict.Decision{}, clusterEvents{c.recorder, "telemetry"}
	clusterEvents{c.recorder, partition.System}.NoCandidate(none)
	<-results
	other.NoCandidate(none)
	<-results
	other.KernelKilled(evict.AtPartition)
	<-results
	events := api.Happened()
	if len(events) != 3 {
		t.Fatalf("%d events; want 3", len(events))
	}
	if e := events[0]; e.Reason != reasonNoCandidate || !strings.Contains(e.Message, "the system partition is low") {
		t.Errorf("%+v", e)
	}
	if e := events[1]; e.Reason != "PartitionNoEvictionCandidate" || !strings.Contains(e.Message, "partition telemetry is low") {
		t.Errorf("%+v", e)
	}
	if e := events[2]; e.Reason != "PartitionOOMKilling" || !strings.Contains(e.Message, "at the memory limit of partition telemetry") {
		t.Errorf("%+v", e)
	}
}
