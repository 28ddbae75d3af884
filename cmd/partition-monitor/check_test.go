package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	partition "nodepartition/pkg/slices"
)

// monitorAnswers answers /readyz as a monitor that runs does.
func monitorAnswers(t *testing.T, status int, text string) (flag string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) // fails when the client has gone
	}))
	t.Cleanup(server.Close)
	return "--listen=" + strings.TrimPrefix(server.URL, "http://")
}

func (n *node) check(t *testing.T, status int, want []string, args ...string) {
	t.Helper()
	got, stdout, stderr := n.run(append([]string{"check"}, args...)...)
	if got != status || stderr != "" {
		t.Errorf("status %d, %q; want %d", got, stderr, status)
	}
	for line := range strings.Lines(stdout) {
		if grade, _, _ := strings.Cut(line, " "); grade != "ok" && grade != "warning" && grade != "error" {
			t.Errorf("a line that does not begin with a grade: %q", line)
		}
	}
	for _, part := range want {
		if !strings.Contains(stdout, part) {
			t.Errorf("want %q in\n%s", part, stdout)
		}
	}
	if errors := strings.Count(stdout, "\nerror "); (errors > 0 || strings.HasPrefix(stdout, "error")) != (status == exitProblem) {
		t.Errorf("status %d with\n%s", status, stdout)
	}
}

// whole is a node on which nothing is wrong.
func whole(t *testing.T) *node {
	t.Helper()
	n := newNode(t, valid("kube-system, monitoring"))
	n.partition(fmt.Sprint(64 << 20))
	n.serve(&fakeRuntime{})
	n.listen("/run/nri/nri.sock")
	n.listen("/var/lib/kubelet/pods-api/pods-api.sock")
	return n
}

func TestCheckWhole(t *testing.T) {
	t.Parallel()
	n := whole(t)
	status, stdout, stderr := n.run("check", monitorAnswers(t, http.StatusOK, "ok\n"))
	if status != exitOK || stderr != "" || strings.Count(stdout, "\n") != 6 || strings.Count("\n"+stdout, "\nok ") != 6 {
		t.Errorf("status %d, %q; want six times ok:\n%s", status, stderr, stdout)
	}
	for _, part := range []string{"memoryLimit 67108864", "kube-system, monitoring", "containerd v2.3.7 at unix:///run/containerd/containerd.sock"} {
		if !strings.Contains(stdout, part) {
			t.Errorf("want %q in\n%s", part, stdout)
		}
	}
}

// Warnings are for what works less well: the exit status stays 0.
func TestCheckWarnings(t *testing.T) {
	t.Parallel()
	n := newNode(t, valid("kube-system"))
	n.partition(fmt.Sprint(64 << 20))
	n.serve(&fakeRuntime{})
	n.check(t, exitOK, []string{
		"warning NRI: dial unix /var/run/nri/nri.sock", "warning kubelet's Pods API: dial unix /var/lib/kubelet/pods-api/pods-api.sock",
		"warning service: not ready: no connection to runtime; no connection to nri\n",
	}, monitorAnswers(t, http.StatusServiceUnavailable, "no connection to runtime\nno connection to nri\n"))
	n.check(t, exitOK, []string{"warning service: not running"}, "--listen=127.0.0.1:1")
	n.check(t, exitOK, []string{"warning service: not asked"}, "--listen=")
}

func TestCheckErrors(t *testing.T) {
	t.Parallel()
	n := whole(t)
	n.partition(fmt.Sprint(32 << 20))
	n.check(t, exitProblem, []string{"error   kubepods-system.slice: memory.max is 33554432; the configuration asks for 67108864"}, "--listen=")
	n.partition("max")
	n.check(t, exitProblem, []string{"error   kubepods-system.slice: memory.max is max;"}, "--listen=")
	if err := os.RemoveAll(n.root + systemCgroup); err != nil {
		t.Fatal(err)
	}
	n.check(t, exitProblem, []string{"error   kubepods-system.slice does not run"}, "--listen=")
	n.check(t, exitProblem, []string{"error   container runtime: /run/other.sock"}, "--listen=", "--runtime-endpoint=/run/other.sock")
	// All problems of a configuration, each in a line.
	n.write("/var/lib/kubelet/config.yaml", broken)
	n.check(t, exitProblem, []string{"memoryLimit", "\nerror   /var/lib/kubelet/config.yaml: ", "namespaces[0]"}, "--listen=")
}

// No partition is no error.
func TestCheckWithoutPartition(t *testing.T) {
	t.Parallel()
	n := whole(t)
	n.write("/proc/cmdline", "quiet node_partition=0")
	n.check(t, exitOK, []string{"warning configuration: no systemPartition section, or switched off by node_partition=0"}, "--listen=")
	n.write("/proc/cmdline", "quiet")
	n.write("/var/lib/kubelet/config.yaml", kubelet(""))
	n.check(t, exitOK, []string{"warning configuration: no systemPartition section"}, "--listen=")
	n.write("/var/lib/kubelet/config.yaml", valid("kube-system")+"featureGates: {NodeSystemPartition: true}")
	n.check(t, exitOK, []string{"warning /var/lib/kubelet/config.yaml: featureGates: NodeSystemPartition is on"}, "--listen=")
}

// A limit that waits for evictions is on its way, and no error: the node is as the monitor has it.
func TestCheckDeferredLimit(t *testing.T) {
	t.Parallel()
	n := whole(t)
	n.partition("134217728")
	n.write(systemCgroup+"/memory.current", "104857600")
	const wrong = "error   kubepods-system.slice: memory.max is 134217728; the configuration asks for 67108864"
	// Nobody would bring it down.
	n.check(t, exitProblem, []string{wrong}, "--listen=")
	n.write("/sys/fs/cgroup/system.slice/partition-monitor.service/cgroup.events", "populated 1\nfrozen 0")
	n.check(t, exitProblem, []string{wrong}, "--listen=") // with --eviction=off
	n.write(partition.EvictsFile, "")
	n.check(t, exitOK, []string{
		"warning kubepods-system.slice: memory.max is 134217728; the configured 67108864 comes when partition-monitor has evicted down to it",
	}, "--listen=")
	// Down to it: from here on systemd would have to apply it.
	n.write(systemCgroup+"/memory.current", "50331648")
	n.check(t, exitProblem, []string{wrong}, "--listen=")
}

// TestServed: looking whether a socket is served is nothing that its server notices.
func TestServed(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "nri.sock")
	if err := served(t.Context(), socket); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "dial unix "+socket) {
		t.Errorf("without a socket: %v", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	if err := served(t.Context(), socket); err != nil {
		t.Errorf("served: %v", err)
	}
	ours, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	if _, err := io.WriteString(ours, "ours"); err != nil {
		t.Fatal(err)
	}
	first, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	text := make([]byte, len("ours"))
	if _, err := io.ReadFull(first, text); err != nil || string(text) != "ours" {
		t.Errorf("somebody has connected before us: %q, %v", text, err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := served(t.Context(), socket); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("left over: %v", err)
	}
}
