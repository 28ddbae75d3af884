package control_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	server "nodepartition/internal/daemon/control"
	"nodepartition/internal/node/control"
)

// TestQueries: queries go over the socket, whatever the address asks for. Without the socket they
// go to the address, and one that asks for a password is named as such.
func TestQueries(t *testing.T) {
	t.Parallel()
	protected := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
	}))
	defer protected.Close()
	address := protected.Listener.Addr().String()
	answers := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Host != control.Host:
			http.Error(w, "another host", http.StatusForbidden)
		case r.URL.Path == "/readyz":
			http.Error(w, "systemd: not connected", http.StatusServiceUnavailable)
		}
	})
	socket := filepath.Join(t.TempDir(), "control")
	missing := control.Service{Socket: socket, Listen: address}
	if got := missing.Ready(t.Context()); !strings.Contains(got, "run this as root") {
		t.Errorf("without the socket: %q", got)
	}
	if err := missing.Listening(t.Context()); err != nil {
		t.Errorf("without the socket: %v", err)
	}
	serveRequests(t, socket, server.Requests{
		Web: answers, Listening: func() error { return errors.New("web.yml: no such file") },
	})
	for _, listen := range []string{address, ""} {
		s := control.Service{Socket: socket, Listen: listen}
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
