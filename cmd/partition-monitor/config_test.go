package main

import (
	"bufio"
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/tests/fakenode"
)

// follow runs the service until it has read its configuration. It then exits, because its address
// has no port.
func (n *fakeNode) follow() (stderr string) {
	n.t.Helper()
	status, _, stderr := n.here("run", "--listen=localhost")
	if status != exitProblem {
		n.t.Fatalf("status %d, %q; want an exit for the missing port", status, stderr)
	}
	return stderr
}

// status returns the output of the command status.
func (n *fakeNode) status() (s state.Status) {
	n.t.Helper()
	status, stdout, stderr := n.here("status", "--listen=", "--output=json")
	if status != exitOK || stderr != "" {
		n.t.Fatalf("status %d, %q", status, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &s); err != nil {
		n.t.Fatalf("%v:\n%s", err, stdout)
	}
	return s
}

// TestRunHangup: at SIGHUP the decision is read again.
func TestRunHangup(t *testing.T) {
	t.Parallel()
	n := newNode(t, fakenode.Valid("kube-system"))
	n.Partition("67108864")
	n.Generate(0)
	cmd := n.program("run", "--listen=", "--debug")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer watchdog.Stop()
	followed := false
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		line := lines.Text()
		switch {
		case strings.Contains(line, "no connection"): // it serves, and follows the first configuration
			n.Write("/var/lib/kubelet/config.yaml", fakenode.Valid("monitoring"))
			n.Generate(0)
			err = cmd.Process.Signal(syscall.SIGHUP)
		case strings.Contains(line, "msg=configuration") && strings.Contains(line, "[monitoring]"):
			followed = true
			err = cmd.Process.Signal(syscall.SIGTERM)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if err := cmd.Wait(); err != nil || !followed {
		t.Errorf("%v; followed: %t", err, followed)
	}
}
