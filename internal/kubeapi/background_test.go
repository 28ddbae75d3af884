package kubeapi

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"nodepartition/internal/kubewatch"
)

// TestBackgroundHangs: an event that gets no answer does not cut off an eviction that is under way.
func TestBackgroundHangs(t *testing.T) {
	t.Parallel()
	api := newAPIServer(t, give(running()))
	patching, answer := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodPost:
			_, _ = io.Copy(io.Discard, r.Body) // the end of the connection is seen after the body
			<-r.Context().Done()
			return
		case http.MethodPatch:
			close(patching)
			<-answer
		}
		api.ServeHTTP(w, r)
	}))
	defer server.Close()
	c := newTestClient(t, server.URL)
	evicted := make(chan error, 1)
	go func() { evicted <- c.MarkEvicted(t.Context(), eviction) }()
	<-patching
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	wantError(t, c.Background().Event(ctx, event), ErrUnreachable)
	close(answer)
	if err := <-evicted; err != nil {
		t.Errorf("the eviction was cut off: %v", err)
	}
}

// TestBackgroundPluginHangs: requests that wait for a plugin that does not end get no more with
// each attempt.
func TestBackgroundPluginHangs(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	end, err := unix.Open(pipe, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(end)
	c := withPlugin(t, clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}, "read x < "+pipe)
	c.Timeout = 10 * time.Millisecond
	for range 5 * kubewatch.MaxLeft {
		wantError(t, c.Background().Event(t.Context(), event), ErrUnreachable, "authenticator")
	}
	if left := c.underWay.left.Load(); left != kubewatch.MaxLeft {
		t.Errorf("%d requests wait for the plugin; want %d", left, kubewatch.MaxLeft)
	}
	if _, err := unix.Write(end, []byte("x\n")); err != nil {
		t.Fatal(err)
	}
}
