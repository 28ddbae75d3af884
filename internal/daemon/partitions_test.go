package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/cluster"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/tests/fakeapi"
	"node-partition.io/node-partition/tests/fakenode"
)

// sliceCalls is systemd for slices of partitions: it removes the cgroup of a slice that is stopped.
type sliceCalls struct {
	calls []string
	// before is called before a slice is stopped.
	before func()
	root   string
	err    error
	gone   bool // the connection
}

func (s *sliceCalls) Connected() bool { return !s.gone }

func (s *sliceCalls) StartConfiguredSlice(_ context.Context, name string) error {
	s.calls = append(s.calls, "start "+name)
	return s.err
}

func (s *sliceCalls) StopConfiguredSlice(_ context.Context, name string) error {
	s.calls = append(s.calls, "stop "+name)
	if s.before != nil {
		s.before()
	}
	if s.err != nil {
		return s.err
	}
	return os.RemoveAll(filepath.Join(s.root, "sys/fs/cgroup", partition.CgroupPath(name)))
}

const twoSections = "systemPartition: {memoryLimit: 64Mi, namespaces: [kube-system]}\n" +
	"workloadPartitions: {telemetry: {memoryLimit: 1Gi, namespaces: [telemetry]}}\n"

// built returns a monitor of a node with two partitions, whose parts do not run, and the calls of
// systemd.
func built(t *testing.T) (*monitor, *fakeNode, *sliceCalls, *bytes.Buffer) {
	t.Helper()
	n := newNode(t, fakenode.Configuration(twoSections))
	var log bytes.Buffer
	o := Options{Options: n.Options(), Tick: time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))}
	m := &monitor{options: o, log: o.Log, reloaded: make(chan struct{}, 1)}
	m.build()
	calls := &sliceCalls{root: n.Root}
	m.partitions.units = calls
	if m.burst <= 0 {
		t.Error("the evictors have no burst")
	}
	for _, p := range []partition.Name{partition.System, "telemetry"} {
		n.slice(p)
	}
	return m, n, calls, &log
}

// slice makes the cgroup of a partition.
func (n *fakeNode) slice(p partition.Name) {
	n.Write(p.Cgroup()+"/cgroup.events", "populated 0")
	n.Write(p.Cgroup()+"/memory.max", "67108864")
}

// switched returns two partitions, of which telemetry is off.
func switched(off bool) node.Followed {
	f := followed(partition.System, "telemetry")
	f.Partitions[1].Off = off
	return f
}

// apply is follow without what it says of a configuration.
func (m *monitor) apply(c node.Followed) {
	m.partitions.changing.Lock()
	defer m.partitions.changing.Unlock()
	m.keep(c)
	m.reconciler.SetConfig(c.Policy())
}

// TestRemoveEmpty: a partition that is off and empty loses its slices, its evictor and its series
// while the other one stays. What a reconcile found does not count any more once it is on again.
func TestRemoveEmpty(t *testing.T) {
	t.Parallel()
	m, n, calls, log := built(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	m.apply(switched(false))
	go func() { ended <- m.partitions.run(ctx) }()
	empty := []partition.Name{"telemetry"}
	m.removeEmpty(t.Context(), empty)
	if p := m.partitions.of("telemetry"); p == nil || len(calls.calls) > 0 {
		t.Fatalf("a partition that is on is ended: %q", calls.calls)
	}
	m.apply(switched(true))
	calls.err = errors.New("busy")
	for range 3 {
		m.removeEmpty(t.Context(), empty)
	}
	if m.partitions.of("telemetry") == nil {
		t.Error("forgotten although its slice is there")
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "stopping a slice of the partition failed") {
		t.Errorf("three passes log %d lines; want one:\n%s", n, log)
	}
	calls.calls, calls.err = nil, nil
	old, stopped := m.partitions.of("telemetry"), false
	within(t, "its parts run", func() bool {
		m.partitions.mu.Lock()
		defer m.partitions.mu.Unlock()
		stop := old.stop
		if stop == nil {
			return false
		}
		old.stop = func() {
			stop()
			stopped = true
		}
		return true
	})
	m.table.SetEvicting("telemetry", map[string]bool{"uid": true})
	m.removeEmpty(t.Context(), empty)
	want := []string{"stop kubepods-telemetry-besteffort.slice", "stop kubepods-telemetry-burstable.slice", "stop kubepods-telemetry.slice"}
	if !slices.Equal(calls.calls, want) || m.exists("telemetry") || m.partitions.of("telemetry") != nil || m.partitions.of(partition.System) == nil {
		t.Errorf("calls %q, partitions %v", calls.calls, m.partitions.names())
	}
	if !stopped {
		t.Error("its evictor runs on")
	}
	if text := metricsOf(t, m); strings.Contains(text, "telemetry") || !strings.Contains(text, `partition="system"`) {
		t.Errorf("series:\n%s", text)
	}
	// It comes back, with an evictor that runs.
	n.slice("telemetry")
	m.apply(switched(false))
	if p := m.partitions.of("telemetry"); p == nil || p == old || p.stop == nil {
		t.Error("the partition that came back has no evictor that runs")
	}
	if text := metricsOf(t, m); !strings.Contains(text, `partition="telemetry"`) {
		t.Error("the partition that came back has no series")
	}
	stop()
	<-ended
	m.apply(followed(partition.System, "telemetry", "late"))
	if p := m.partitions.of("late"); p == nil || p.stop != nil {
		t.Error("parts of a partition run after the end of all")
	}
}

// TestRemovedAndAddedAgain: a reload that adds a partition again waits until its removal is over,
// and makes a new one.
func TestRemovedAndAddedAgain(t *testing.T) {
	t.Parallel()
	m, n, calls, _ := built(t)
	m.apply(switched(false))
	m.apply(switched(true))
	added := make(chan bool)
	calls.before = func() {
		calls.before = nil
		go func() {
			m.apply(switched(false))
			close(added)
		}()
	}
	m.comeAndGo([]partition.Name{"telemetry"})
	<-added
	if p := m.partitions.of("telemetry"); p == nil || !slices.Contains(m.on(), "telemetry") {
		t.Errorf("telemetry is on %v, and the daemon has %v", m.on(), m.partitions.names())
	}
	calls.calls = nil
	m.comeAndGo([]partition.Name{"telemetry"})
	if !slices.Equal(calls.calls, []string{"start kubepods-telemetry.slice"}) {
		t.Errorf("%q; want its slice started", calls.calls)
	}
	n.slice("telemetry")
}

// TestRemoveAllIsServes: if all partitions are off, the end of the daemon stops their slices.
func TestRemoveAllIsServes(t *testing.T) {
	t.Parallel()
	m, _, calls, _ := built(t)
	off := switched(true)
	off.Partitions[0].Off = true
	m.apply(off)
	m.removeEmpty(t.Context(), []partition.Name{partition.System, "telemetry"})
	if len(calls.calls) > 0 {
		t.Errorf("%q; want nothing before the reconciler has ended", calls.calls)
	}
	m.removePartitions(t.Context())
	if len(calls.calls) != 6 {
		t.Errorf("%q; want all slices stopped", calls.calls)
	}
}

// TestStoppedWhileSwitchedOff: a daemon that is stopped stops the slices of partitions that are all
// off and empty. It leaves them while one is on, or has a pod, or is back in the configuration that
// was not followed any more. It removes the condition of the Node with them, and also if the files
// switch all partitions off while pods stay: a package that is removed stops it before it has
// followed that.
func TestStoppedWhileSwitchedOff(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		systemOff, pod, back, removed bool
		want                          int
		leaves                        bool
	}{
		"all are empty":          {true, false, false, false, 6, true},
		"one has a pod":          {true, true, false, false, 0, true},
		"one is on":              {false, false, false, false, 0, true},
		"one came back":          {true, false, true, false, 0, false},
		"on, and in the section": {false, true, true, false, 0, false},
		"the package is removed": {false, true, true, true, 0, true},
	} {
		m, n, calls, _ := built(t)
		api := fakeapi.New(t, httptest.NewServer)
		m.options.NodeStatus = true
		m.api = cluster.NewReporter(host.This(), api.NewKubeconfig(t), m.log)
		m.api.Look()
		m.marks = m.newNodeStatus()
		if !test.back {
			n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration(""))
			n.Generate(0)
		}
		if test.removed { // as its scripts write it
			n.Write("/run/node-partition/trial.yaml", fakenode.Configuration("systemPartition: {}\nworkloadPartitions: {}\n"))
		}
		config := switched(true)
		config.Partitions[0].Off = test.systemOff
		m.apply(config)
		if test.pod {
			slice := partition.PodSlice(partition.System, partition.BestEffort, "u-1")
			n.Write(filepath.Join(partition.System.Cgroup(), partition.QoSSlice(partition.System, partition.BestEffort), slice, "cgroup.events"), "populated 0")
		}
		m.stopEmptied(t.Context())
		if len(calls.calls) != test.want {
			t.Errorf("%s: %q; want %d slices stopped", name, calls.calls, test.want)
		}
		if asked := len(api.Came()) > 0; asked != test.leaves {
			t.Errorf("%s: the condition is removed: %t; want %t", name, asked, test.leaves)
		}
	}
}

// TestStartSlices: the slice of a partition that came while the daemon runs is started.
func TestStartSlices(t *testing.T) {
	t.Parallel()
	m, n, calls, log := built(t)
	if err := os.RemoveAll(filepath.Join(n.Root, partition.Name("telemetry").Cgroup())); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		change func(*node.Followed)
		gone   bool
		want   []string
	}{
		"made":          {func(*node.Followed) {}, false, []string{"start kubepods-telemetry.slice"}},
		"off":           {func(f *node.Followed) { f.Partitions[1].Off = true }, false, nil},
		"not connected": {func(*node.Followed) {}, true, nil},
	} {
		c := switched(false)
		test.change(&c)
		m.apply(c)
		calls.calls, calls.gone = nil, test.gone
		m.startSlices(t.Context())
		if !slices.Equal(calls.calls, test.want) {
			t.Errorf("%s: %q; want %q", name, calls.calls, test.want)
		}
	}
	calls.gone, calls.err = false, errors.New("masked")
	m.apply(switched(false))
	m.startSlices(t.Context())
	if !strings.Contains(log.String(), "masked") {
		t.Errorf("log %q", log)
	}
}

// TestGateThenEnd: the slices of a system partition that the kubelet makes from now on are not
// stopped, neither then nor when the last other partition ends.
func TestGateThenEnd(t *testing.T) {
	t.Parallel()
	m, n, calls, log := built(t)
	c, err := node.Load(m.options.Node, podmove.Auto)
	if err != nil {
		t.Fatal(err)
	}
	m.follow(c)
	n.RunKubelet("--feature-gates=NodeSystemPartition=true")
	m.reload()
	if got := m.partitions.names(); !slices.Equal(got, []partition.Name{"telemetry"}) {
		t.Errorf("with the gate the daemon has %v", got)
	}
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration("systemPartition: {memoryLimit: 64Mi, namespaces: [kube-system]}\n"))
	n.Generate(0)
	m.reload()
	m.removePartitions(t.Context())
	if len(calls.calls) != 3 || slices.ContainsFunc(calls.calls, func(call string) bool { return strings.Contains(call, "kubepods-system") }) {
		t.Errorf("%q\n%s", calls.calls, log)
	}
}

// metricsOf returns the metrics of a monitor.
func metricsOf(t *testing.T, m *monitor) string {
	t.Helper()
	families, err := m.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range families {
		text.WriteString(f.String() + "\n")
	}
	return strings.ReplaceAll(strings.ReplaceAll(text.String(), `name:"partition"  value:`, "partition="), `name:"partition" value:`, "partition=")
}
