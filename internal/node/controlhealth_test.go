package node_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"node-partition.io/node-partition/internal/daemon"
	"node-partition.io/node-partition/internal/node"
)

// TestQueries: queries go over the socket, whatever the address asks for.
func TestQueries(t *testing.T) {
	t.Parallel()
	protected := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
	}))
	defer protected.Close()
	address := protected.Listener.Addr().String()
	answers := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Host != node.ControlHost:
			http.Error(w, "another host", http.StatusForbidden)
		case r.URL.Path == "/readyz":
			http.Error(w, "systemd: not connected", http.StatusServiceUnavailable)
		}
	})
	socket := filepath.Join(t.TempDir(), "control")
	serveRequests(t, socket, daemon.Requests{
		Web: answers, Listening: func() error { return errors.New("web.yml: no such file") },
	})
	for _, listen := range []string{address, ""} {
		s := node.Service{Socket: socket, Listen: listen}
		if got, want := s.Ready(t.Context()), "not ready: systemd: not connected"; got != want {
			t.Errorf("--listen=%s: %q, want %q", listen, got, want)
		}
		if _, err := s.Metrics(t.Context()); err != nil {
			t.Errorf("--listen=%s: %v", listen, err)
		}
		if err := s.Listening(t.Context()); err == nil || err.Error() != "web.yml: no such file" {
			t.Errorf("--listen=%s: %v", listen, err)
		}
	}
}

// asker is the variable of the environment with the service that a child of a test asks.
const asker = "ASK_SERVICE"

// TestQueriesImpostor: while the service does not run, an account that listens at its address and
// says that all is well is not believed. Who may not open the socket asks the address, and is told
// that anybody may have answered.
func TestQueriesImpostor(t *testing.T) {
	if service, ok := os.LookupEnv(asker); ok {
		socket, listen, _ := strings.Cut(service, " ")
		s := node.Service{Socket: socket, Listen: listen}
		fmt.Print(s.Ready(t.Context()), ";", s.Listening(t.Context()), ";")
		return
	}
	t.Parallel()
	status := http.StatusOK
	impostor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"pods":[{"name":"invented"}]}`)
	}))
	defer impostor.Close()
	s := node.Service{Socket: filepath.Join(t.TempDir(), "control"), Listen: impostor.Listener.Addr().String()}
	believed := func(when string) {
		t.Helper()
		_, err := s.Metrics(t.Context())
		if got := s.Ready(t.Context()); !strings.HasPrefix(got, "not running") || len(s.LastReport(t.Context()).Pods) > 0 || err == nil {
			t.Errorf("%s: %q, %v", when, got, err)
		}
	}
	believed("without a socket")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.Socket})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	if err := errors.Join(listener.Close(), os.Chmod(s.Socket, 0)); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		believed("with a socket that a killed service has left")
	}
	asked := func(want string) {
		t.Helper()
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestQueriesImpostor$")
		cmd.Env = []string{asker + "=" + s.Socket + " " + s.Listen}
		// A user that is not root in a separate user namespace has no capabilities.
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getuid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		if got, _, _ := strings.Cut(string(out), ";PASS"); err != nil || got != want+";<nil>" {
			t.Errorf("%v, %s; want %s", err, out, want)
		}
	}
	asked("ready, says whoever listens at " + s.Listen + "; run this as root to ask the service")
	status = http.StatusUnauthorized
	asked("not queried: the address asks for TLS or a password; run this as root")
}
