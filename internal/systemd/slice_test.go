package systemd

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
)

const slice = "kubepods-system-burstable-pod1.slice"

var limits = cgroups.Limits{MemoryMax: 1 << 30, MemoryHigh: 900 << 20, CPUWeight: 39, CPUQuotaPerSec: 250_000, CPUQuotaPeriod: 100_000, TasksMax: 1000, Protection: cgroups.Protection{Low: 1 << 20}}

// cgroup makes a folder with the files of the slice's cgroup.
func cgroup(t *testing.T, files map[string]string) cgroups.FS {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, partition.CgroupPath(slice))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return cgroups.FS(root)
}

var limited = map[string]string{"memory.max": "1073741824", "memory.high": "943718400", "cpu.weight": "39", "cpu.max": "25000 100000", "pids.max": "1000", "memory.low": "1048576"}

func TestEnsureSlice(t *testing.T) {
	b := newBus(t)
	systemd := newFake(b)
	client := run(t, Options{BusAddress: b.address, Documentation: "https://kep.k8s.io/5894", Cgroups: cgroup(t, limited)})
	if err := client.EnsureSlice(t.Context(), slice, "Pod kube-system/a", limits); err != nil {
		t.Fatal(err)
	}
	want := []string{"Subscribe", "StartTransientUnit " + slice + " replace"}
	if got := systemd.seen(); !slices.Equal(got, want) {
		t.Errorf("a new slice: %q, want %q", got, want)
	}
	for name, want := range map[string]any{
		"Description": "Pod kube-system/a", "DefaultDependencies": false, "MemoryMax": uint64(1 << 30), "CPUWeight": uint64(39),
		"CPUQuotaPerSecUSec": uint64(250_000), "CPUQuotaPeriodUSec": uint64(100_000), "TasksMax": uint64(1000), "MemoryAccounting": true,
		"MemoryMin": uint64(0), "MemoryLow": uint64(1 << 20), "MemoryHigh": uint64(900 << 20),
	} {
		if got := systemd.property(name).Value(); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if got := systemd.property("Documentation").String(); got != `["https://kep.k8s.io/5894"]` {
		t.Errorf("Documentation is %s", got)
	}

	// The second time the slice exists.
	if err := client.EnsureSlice(t.Context(), slice, "Pod kube-system/b", limits); err != nil {
		t.Fatal(err)
	}
	want = []string{"StartTransientUnit " + slice + " replace", "SetUnitProperties " + slice + " true", "StartUnit " + slice + " replace"}
	if got := systemd.seen(); !slices.Equal(got, want) {
		t.Errorf("a slice that is there: %q, want %q", got, want)
	}
	if got := systemd.property("Description").Value(); got != "Pod kube-system/b" {
		t.Errorf("Description is %v", got)
	}
}

// TestEnsureSliceChecksLimits: the end of a job does not show that the limits are set.
func TestEnsureSliceChecksLimits(t *testing.T) {
	b := newBus(t)
	systemd := newFake(b)
	client := run(t, Options{BusAddress: b.address, Cgroups: cgroup(t, map[string]string{"memory.max": "max"})})
	if err := client.EnsureSlice(t.Context(), slice, "", limits); err != nil {
		t.Fatal(err)
	}
	if got := systemd.seen(); got[len(got)-1] != "SetUnitProperties "+slice+" true" {
		t.Errorf("limits that were not set were not set again: %q", got)
	}
	err := client.EnsureSlice(t.Context(), "kubepods-system-pod2.slice", "", limits)
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a cgroup: %v", err)
	}
}

// TestStopSlicePopulated: ErrPopulated takes no call to systemd.
func TestStopSlicePopulated(t *testing.T) {
	client := New(Options{Cgroups: cgroup(t, map[string]string{"cgroup.events": "populated 1\nfrozen 0"})})
	if err := client.StopSlice(t.Context(), slice); !errors.Is(err, ErrPopulated) {
		t.Errorf("with processes: %v", err)
	}
}

func TestStopSlice(t *testing.T) {
	b := newBus(t)
	systemd := newFake(b, slice)
	o := Options{BusAddress: b.address, ControlDir: t.TempDir(), Cgroups: cgroup(t, map[string]string{"cgroup.events": "populated 0\nfrozen 0"})}
	client := run(t, o)
	for _, want := range [][]string{
		{"Subscribe", "StopUnit " + slice + " ignore-dependencies"},
		{"StopUnit " + slice + " ignore-dependencies"}, // it is gone
	} {
		if err := client.StopSlice(t.Context(), slice); err != nil {
			t.Error(err)
		}
		if got := systemd.seen(); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if err := os.Mkdir(filepath.Join(o.ControlDir, slice+".d"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := client.StopSlice(t.Context(), slice); err != nil {
		t.Error(err)
	}
	if got := systemd.seen(); got[len(got)-1] != "RevertUnitFiles "+slice {
		t.Errorf("with drop-ins: %q", got)
	}
}

func TestRevert(t *testing.T) {
	dir := t.TempDir()
	c := New(Options{ControlDir: dir})
	for name, files := range map[string][]string{
		"a.slice": {"50-CPUWeight.conf"},
		"b.slice": {"50-CPUWeight.conf", "50-MemoryLow.conf", "50-MemoryMin.conf", "50-TasksMax.conf"},
	} {
		if err := os.Mkdir(filepath.Join(dir, name+".d"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(dir, name+".d", f), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Revert(t.Context(), "a.slice", "b.slice", "c.slice"); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != "50-TasksMax.conf" {
		t.Errorf("left: %v %v", left, err)
	}
}

// TestClientBusRestart: calls wait for a bus that is being restarted.
func TestClientBusRestart(t *testing.T) {
	b := newBus(t)
	newFake(b)
	heard := make(told, 10)
	o := heard.options(b)
	o.Timeout = late
	client := run(t, o)
	heard.want(t, "connected true", "reloaded", "wake")
	b.stop()
	heard.want(t, "connected false")
	called := make(chan error, 1)
	go func() { called <- client.SetCPUWeight(t.Context(), slice, 39) }()
	b.start()
	systemd := newFake(b)
	if err := <-called; err == nil {
		heard.want(t, "connected true", "reloaded", "wake")
	} else {
		t.Error(err)
	}
	if got := systemd.property("CPUWeight").Value(); got != uint64(39) {
		t.Errorf("CPUWeight is %v", got)
	}
}

// TestEnsureSliceInterrupted: systemd leaves before it answers.
func TestEnsureSliceInterrupted(t *testing.T) {
	b := newBus(t)
	first := newFake(b)
	client := run(t, Options{BusAddress: b.address, Timeout: late, Cgroups: cgroup(t, limited)})
	// The end of the job is never reported: systemd re-executes with the job queued.
	queued := first.neverDone()
	done := make(chan error, 1)
	go func() { done <- client.EnsureSlice(t.Context(), slice, "", limits) }()
	<-queued
	if err := first.conn.Close(); err != nil {
		t.Fatal(err)
	}
	second := newFake(b, slice)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := second.seen(); !slices.Contains(got, "SetUnitProperties "+slice+" true") {
		t.Errorf("the new one was asked %q", got)
	}
}

func TestClientNotConnected(t *testing.T) {
	dir := t.TempDir()
	c := run(t, Options{BusAddress: "unix:path=" + dir + "/bus", PrivateAddress: "unix:path=" + dir + "/private", Timeout: 200 * time.Millisecond})
	err := c.SetCPUWeight(t.Context(), slice, 1)
	if !errors.Is(err, errNotConnected) || !strings.Contains(err.Error(), dir+"/bus") || !strings.Contains(err.Error(), dir+"/private") {
		t.Errorf("without anything to connect to: %v", err)
	}
	if c.Connected() {
		t.Error("it is connected")
	}
}
