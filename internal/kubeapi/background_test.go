package kubeapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
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
	go func() { evicted <- c.MarkEvicted(t.Context(), dns, now, low) }()
	<-patching
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	wantError(t, c.Background().Event(ctx, event()), ErrUnreachable)
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
	refused := false
	for range 100 * maxBehind { // some end before they wait for the plugin
		err := c.Background().Event(t.Context(), event())
		wantError(t, err, ErrUnreachable, "authenticator")
		if refused = errors.Is(err, errLeft); refused {
			break
		}
	}
	if !refused {
		t.Errorf("%d requests wait for the plugin, and one more is sent", len(c.underWay))
	}
	if _, err := unix.Write(end, []byte("x\n")); err != nil {
		t.Fatal(err)
	}
}

// TestBackgroundSlowAnswer: a webhook that is slow for Events alone does not end a write of the
// Node's status that the API server is about to answer, over one connection and over several.
func TestBackgroundSlowAnswer(t *testing.T) {
	t.Parallel()
	for name, secure := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patching, answer := make(chan struct{}), make(chan struct{})
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // the end of the connection is seen after the body
				w.Header().Set("Content-Type", "application/json")
				switch r.Method {
				case http.MethodPost:
					<-r.Context().Done()
				case http.MethodPatch:
					close(patching)
					<-answer
					_, _ = io.WriteString(w, `{"kind":"Node","apiVersion":"v1"}`)
				}
			})
			var c *Client
			if secure {
				server, authority := secureServer(t, handler)
				c = clientOf(t, writeKubeconfig(t, clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: authority}, clientcmdapi.AuthInfo{}))
			} else {
				server := httptest.NewServer(handler)
				t.Cleanup(server.Close)
				c = newTestClient(t, server.URL)
			}
			patched := make(chan error, 1)
			go func() {
				_, err := c.Background().LookAtNode(t.Context(), "one")
				patched <- err
			}()
			<-patching
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			wantError(t, c.Background().Event(ctx, event()), ErrUnreachable)
			close(answer)
			if err := <-patched; err != nil {
				t.Errorf("the write was cut off: %v", err)
			}
		})
	}
}

// TestWriteSlowWebhook: a write has the time that webhooks have by default, and a read has less: it
// finds a dead connection.
func TestWriteSlowWebhook(t *testing.T) {
	t.Parallel()
	api := newAPIServer(t, give(running()))
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch {
			<-time.After(1500 * time.Millisecond)
		}
		api.ServeHTTP(w, r)
	}))
	defer slow.Close()
	c := newTestClient(t, slow.URL)
	c.Timeout = time.Second
	if err := c.MarkEvicted(t.Context(), dns, now, low); err != nil {
		t.Error(err)
	}
	if patient*requestTimeout <= 10*time.Second {
		t.Errorf("a write has %s", patient*requestTimeout)
	}
}
