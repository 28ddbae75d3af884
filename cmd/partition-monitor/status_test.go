package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/tests/fakenode"
)

// TestStatusWait: status --wait ends with an error when its time is over, and with the status when
// the service answers that it is ready.
func TestStatusWait(t *testing.T) {
	t.Parallel()
	n := newNode(t, fakenode.Valid("kube-system"))
	n.Partition("67108864")
	n.Serve(&fakenode.Runtime{})
	n.oneProblem([]string{"not ready after 100ms: ", "not running"}, "status", "--wait", "--timeout=100ms", "--listen=")
	listener := n.Listen(node.ControlSocket)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ready" {
			http.NotFound(w, r) // no reasons
			return
		}
		_, _ = io.WriteString(w, "ready")
	})}
	go func() { _ = server.Serve(listener) }() // it ends with Close
	t.Cleanup(func() { _ = server.Close() })
	status, stdout, stderr := n.here("status", "--wait", "--listen=")
	if status != exitOK || stderr != "" || !strings.Contains(stdout, "● system ") {
		t.Errorf("status %d, %q:\n%s", status, stderr, stdout)
	}
}

// TestStatusExit: status shows what it reads, and the exit status is 0.
func TestStatusExit(t *testing.T) {
	t.Parallel()
	n := guarded(t)
	n.TellPods()
	for args, want := range map[string]string{"": "● system ", "-o json": `"partitions": [`, "--eviction=off": "  Evicts      off\n", "--move=never": "forbidden: "} {
		status, stdout, stderr := n.here(append([]string{"status", "--listen="}, strings.Fields(args)...)...)
		if status != exitOK || stderr != "" || !strings.Contains(stdout, want) {
			t.Errorf("%q: status %d, %q; want %q in\n%s", args, status, stderr, want, stdout)
		}
	}
}
