package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/monitor/apiserver"
	"nodepartition/internal/monitor/faults"
	"nodepartition/internal/monitor/metrics"
	"nodepartition/internal/monitor/options"
	"nodepartition/pkg/evict"
	"nodepartition/tests/fakeapi"
)

// TestKillFaults: a kill is recorded on the pod, and on the node if no pod is known.
func TestKillFaults(t *testing.T) {
	t.Parallel()
	pods := []evict.Pod{
		{UID: "1", Namespace: "kube-system", Name: "dns", Cgroup: "a"},
		{UID: "2", Namespace: "kube-system", Name: "log", Cgroup: "b"},
		{UID: "3", Name: "(pod 3)", Cgroup: "c", Unknown: true},
	}
	onNode := []faults.Fault{{Reason: reasonKilled, Message: killedUnknown}}
	for name, test := range map[string]struct {
		killed map[string]uint64
		want   []faults.Fault
	}{
		"a pod":                  {map[string]uint64{"b": 2}, []faults.Fault{{Pod: faults.Pod{UID: "2", Namespace: "kube-system", Name: "log"}, Reason: reasonKilled, Message: killedPod}}},
		"an unknown pod":         {map[string]uint64{"c": 1}, onNode},
		"a pod that has ended":   {map[string]uint64{"d": 1}, onNode},
		"a pod that had no time": {nil, onNode},
	} {
		if got := killFaults(test.killed, pods); !slices.Equal(got, test.want) {
			t.Errorf("%s: %+v; want %+v", name, got, test.want)
		}
	}
}

// TestClusterKilledSince: kills that follow one another are recorded once, and those at a pod's own
// limit not at all.
func TestClusterKilledSince(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	const system = "kubepods.slice/kubepods-system.slice"
	const pod = system + "/kubepods-system-pod1.slice"
	write := func(cgroup string, oom, killed int) {
		t.Helper()
		dir := filepath.Join(root, cgroup)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "memory.events"), fmt.Appendf(nil, "oom %d\noom_kill %d\n", oom, killed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dns := evict.Pod{UID: "1", Namespace: "kube-system", Name: "dns", Cgroup: pod}
	c := &cluster{kills: faults.Kills{Cgroups: cgroupfs.FS(root)}, pods: func() []evict.Pod { return []evict.Pod{dns} }}
	reasons := func(limit evict.KilledAt) string {
		killed := c.killedSince(limit)
		all := make([]string, 0, len(killed))
		for _, f := range killed {
			all = append(all, f.Pod.Name+" "+f.Message)
		}
		return strings.Join(all, "; ")
	}
	write(system, 0, 0)
	write(pod, 0, 0)
	reasons(evict.AtPartition)
	write(system, 2, 2)
	write(pod, 0, 2)
	if got := reasons(evict.AtPartition); got != "dns "+killedPod {
		t.Errorf("%q; want the pod", got)
	}
	if got := reasons(evict.AtPartition); got != "" {
		t.Errorf("%q for a kill that the reading before has found", got)
	}
	write(system, 4, 3)
	write(pod, 1, 3)
	if got := reasons(evict.AtPartition); got != "" {
		t.Errorf("%q for a kill at the pod's own limit", got)
	}
	write(system, 5, 4)
	if got := reasons(evict.AtPartition); got != " "+killedUnknown {
		t.Errorf("%q; want an unknown pod, on the node", got)
	}
}

// clusterOf returns a cluster that records in an API server, and its recorder, which runs until the
// test ends.
func clusterOf(t *testing.T, api *apiserver.Reporter) (c *cluster, results chan faults.Result) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	results = make(chan faults.Result, 10)
	c = &cluster{recorder: faults.NewRecorder(api, log, func(r faults.Result, _ int) { results <- r })}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.recorder.Run(ctx) // it ends with its context
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return c, results
}

// TestClusterOnNode: faults without a pod are events on the node. Equal ones are counted, because
// their text has no figures.
func TestClusterOnNode(t *testing.T) {
	t.Parallel()
	api := fakeapi.New(t, httptest.NewServer)
	c, results := clusterOf(t, apiserver.New(api.NewKubeconfig(t), slog.New(slog.DiscardHandler)))
	next := func(want faults.Result) {
		t.Helper()
		if got := <-results; got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
	order := []evict.Candidate{{Pod: evict.Pod{Name: "etcd"}, Skip: evict.SkipStatic}}
	c.noCandidate(evict.Decision{Order: order, Available: 5 * mebi})
	next(faults.Created)
	c.noCandidate(evict.Decision{Order: order, Available: 4 * mebi})
	next(faults.Repeated)
	c.invalid("the configuration is not valid; following the last good one of this boot", errors.New("memoryLimit: bad\nmore"))
	next(faults.Created)
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

// TestClusterForbidden: without the right to create events evictions are still reported.
func TestClusterForbidden(t *testing.T) {
	t.Parallel()
	api := fakeapi.New(t, httptest.NewServer)
	api.Answer(fakeapi.PostNodeEvent, http.StatusForbidden)
	reporter := apiserver.New(api.NewKubeconfig(t), slog.New(slog.DiscardHandler))
	c, results := clusterOf(t, reporter)
	c.invalid("x", errors.New("y"))
	if got := <-results; got != faults.Dropped {
		t.Errorf("%s; want that it is dropped", got)
	}
	if !reporter.Available() {
		t.Error("evictions are not reported, because an event was refused")
	}
}

// TestClusterNone: without a kubeconfig, and if nothing is asked for, nothing is recorded and no
// method fails.
func TestClusterNone(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]options.Options{
		"no kubeconfig": {Events: true, NodeCondition: true, Eviction: options.Eviction{Kubeconfig: options.KubeconfigNone}},
		"not asked for": {Eviction: options.Eviction{Kubeconfig: options.KubeconfigAuto}},
	} {
		m := &monitor{options: Options{Options: o}}
		m.cluster = m.newCluster(nil)
		if m.cluster != nil || len(m.cluster.runs()) != 0 {
			t.Errorf("%s: something runs", name)
		}
		m.cluster.noCandidate(evict.Decision{})
		m.cluster.invalid("x", errors.New("y"))
		m.cluster.kernelKilled(evict.AtPartition)
		m.cluster.pressed()
		m.cluster.withdraw(t.Context())
	}
	m := &monitor{options: Options{Options: options.Options{Events: true, Eviction: options.Eviction{Kubeconfig: options.KubeconfigAuto}}}}
	m.metrics = &metrics.Metrics{}
	if c := m.newCluster(nil); c == nil || c.recorder == nil || c.condition != nil {
		t.Errorf("%+v; want events and no condition by default", c)
	}
}
