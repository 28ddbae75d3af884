package daemon

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/command/status"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/tests/fakenode"
)

// fakeNode is a node below a folder, with a daemon that has no systemd.
type fakeNode struct {
	*fakenode.Node
	t *testing.T
}

func newNode(t *testing.T, configuration string) *fakeNode {
	t.Helper()
	return &fakeNode{fakenode.New(t, configuration), t}
}

// runAt runs the service with an address, and returns its log and its error as one text. It is for
// a service that exits by itself.
func (n *fakeNode) runAt(listen string) (text string, err error) {
	n.t.Helper()
	var log bytes.Buffer
	o := Options{Options: n.Options(), Tick: 30 * time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))}
	o.Listen = listen
	err = Run(n.t.Context(), o)
	return fmt.Sprint(&log, err), err
}

// follow runs the service until it has read its configuration. It then exits, because its address
// has no port.
func (n *fakeNode) follow() (text string) {
	n.t.Helper()
	text, err := n.runAt("localhost")
	if err == nil || !strings.Contains(err.Error(), "missing port") {
		n.t.Fatalf("%q; want an exit for the missing port", text)
	}
	return text
}

// status returns what the command status reads.
func (n *fakeNode) status() state.Status {
	n.t.Helper()
	s, err := status.Read(n.t.Context(), n.Options())
	if err != nil {
		n.t.Fatal(err)
	}
	return s
}

// TestLastGoodConfiguration: the last valid configuration outlives a broken one, and the service.
// status has the reason.
func TestLastGoodConfiguration(t *testing.T) {
	t.Parallel()
	n := running(t)
	for _, edit := range []struct {
		what, text string
		status     int
		problem    string
	}{
		{"broken", fakenode.Broken, 1, "memoryLimit"},
		{"valid again", fakenode.Valid("kube-system"), 0, ""},
	} {
		n.Write("/var/lib/kubelet/config.yaml", edit.text)
		n.Generate(edit.status)
		n.follow()
		n.follows(edit.what, "kube-system", edit.problem)
	}
}

// TestRunTwice: a second monitor does not start, because two would undo each other's work.
func TestRunTwice(t *testing.T) {
	t.Parallel()
	n := newNode(t, fakenode.Valid("kube-system"))
	n.follow()
	lock, err := os.Open(filepath.Join(n.Root, node.StateDir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	_, err = n.runAt("")
	for _, part := range []string{"another partition-monitor runs", "systemctl stop partition-monitor.service"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v; want %q", err, part)
		}
	}
}
