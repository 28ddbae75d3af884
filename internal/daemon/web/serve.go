package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Requests have no body, and the largest answer takes a fraction of a second. A slower client only
// occupies a connection.
const (
	headerTimeout = 5 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 16 << 10
	// grace is the time for unfinished answers when the monitor stops. systemd waits longer
	// (TimeoutStopSec=).
	grace = 3 * time.Second
)

// Serve serves on the listener until ctx is done, and closes it. It returns nil after the last
// answer was written, or cut off after a few seconds.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	return serveBy(ctx, listener, newServer(handler), func(s *http.Server) error { return s.Serve(listener) })
}

func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       headerTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
	}
}

// serveBy serves by accept, which returns when the server is shut down.
func serveBy(ctx context.Context, listener net.Listener, server *http.Server, accept func(*http.Server) error) error {
	stopped := make(chan error, 1)
	cancel := context.AfterFunc(ctx, func() {
		patience, done := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer done()
		err := server.Shutdown(patience)
		if errors.Is(err, context.DeadlineExceeded) {
			err = server.Close()
		}
		stopped <- err
	})
	err := accept(server)
	if cancel() || !errors.Is(err, http.ErrServerClosed) {
		// accept may have failed before the server knew of the listener.
		closed := listener.Close()
		if errors.Is(closed, net.ErrClosed) {
			closed = nil
		}
		return errors.Join(fmt.Errorf("serve %s: %w", listener.Addr(), err), server.Close(), closed)
	}
	return <-stopped
}
