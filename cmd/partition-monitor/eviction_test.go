package main

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"node-partition.io/node-partition/pkg/slices"
	"node-partition.io/node-partition/tests/fakenode"
)

const mebi = 1 << 20

// serveOnce starts the service, waits until it connects to NRI, which is after it has read its
// configuration, and stops it.
func (n *fakeNode) serveOnce(args ...string) (stderr string) {
	n.t.Helper()
	socket := filepath.Join(n.Root, "/run/nri/nri.sock")
	if err := os.RemoveAll(socket); err != nil {
		n.t.Fatal(err)
	}
	listener, ok := n.Listen("/run/nri/nri.sock").(*net.UnixListener)
	if !ok {
		n.t.Fatal("no socket")
	}
	if err := listener.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		n.t.Fatal(err)
	}
	cmd := n.program(append([]string{"run", "--listen="}, args...)...)
	var text bytes.Buffer
	cmd.Stderr = &text
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	conn, err := listener.Accept()
	if err == nil {
		_ = conn.Close() // only the connection counts
	}
	if err := errors.Join(err, cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
		n.t.Fatalf("%v: %s", err, &text)
	}
	return text.String()
}

// TestEvictsFile: the file exists while the service evicts. The generator leaves a lowered limit to
// the service only then.
func TestEvictsFile(t *testing.T) {
	t.Parallel()
	n := newNode(t, fakenode.Valid("kube-system"))
	n.Partition("67108864")
	marker := filepath.Join(n.Root, slices.EvictsFile)
	for _, step := range []struct {
		configuration string
		status        int // of the generator
		flag          string
		want          bool
	}{
		{fakenode.Valid("kube-system"), 0, "--eviction=off", false}, // did not exist
		{fakenode.Valid("kube-system"), 0, "--eviction=on", true},
		{fakenode.Valid("kube-system"), 0, "--eviction=on", true}, // exists already
		{fakenode.Valid("kube-system"), 0, "--eviction=dry-run", false},
		{fakenode.Valid("kube-system"), 0, "--eviction=on", true},
		{fakenode.Valid("kube-system"), 0, "--eviction=off", false},
		{fakenode.Broken, 1, "--eviction=on", true}, // the last good one
		{fakenode.Configuration(""), 0, "--eviction=on", false},
	} {
		n.Write("/var/lib/kubelet/config.yaml", step.configuration)
		n.Generate(step.status)
		stderr := n.serveOnce(step.flag)
		if _, err := os.Stat(marker); (err == nil) != step.want {
			t.Errorf("%q, %s: %v; want it there: %t\n%s", step.configuration, step.flag, err, step.want, stderr)
		}
	}
}

// TestEvictsFileFails: the log has the error if the file cannot be written or removed.
func TestEvictsFileFails(t *testing.T) {
	t.Parallel()
	n := newNode(t, fakenode.Valid("kube-system"))
	n.Write(slices.EvictsFile+"/in-the-way", "")
	for _, flag := range []string{"--eviction=on", "--eviction=off"} {
		if stderr := n.serveOnce(flag); !strings.Contains(stderr, "recording for the generator whether pods are evicted failed") || !strings.Contains(stderr, slices.EvictsFile) {
			t.Errorf("%s: %s", flag, stderr)
		}
	}
}
