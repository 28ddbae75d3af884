package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Requests have no body, and the largest answer takes a fraction of a second. A slower client only
// occupies a connection.
const (
	headerTimeout = 5 * time.Second
	writeTimeout  = 10 * time.Second // a scrape_timeout of Prometheus, which gives up then
	idleTimeout   = 2 * time.Minute
	maxHeader     = 16 << 10
	// grace is the time for unfinished answers when the monitor stops: on a busy node a scrape takes
	// seconds. systemd waits longer (TimeoutStopSec=).
	grace = 5 * time.Second
)

// Serve serves on the listener until ctx is done, and closes it. It returns nil after the last
// answer was written, or cut off after a few seconds.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	return serveBy(ctx, listener, newServer(handler), (*http.Server).Serve)
}

func newServer(handler http.Handler) *http.Server {
	// HTTP/2 would have 250 requests at once on each connection.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Server{
		Protocols:         &protocols,
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       headerTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
	}
}

// serveBy serves by accept, which returns when the listener is closed.
//
// http.Server.Shutdown would drop requests: it closes a connection that was accepted and not read
// (conn.serve, net/http, Go 1.26). The kernel has given it to this process, so the next one cannot
// answer. So the listener is closed first, and Serve has counted what it has accepted when it
// returns.
func serveBy(
	ctx context.Context, listener net.Listener, server *http.Server, accept func(*http.Server, net.Listener) error,
) error {
	var open sync.WaitGroup
	limits := newLimits()
	server.ConnContext = limits.enter
	server.ConnState = func(c net.Conn, state http.ConnState) {
		limits.changed(c, state)
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Done()
		}
	}
	closed := make(chan error, 1)
	cancel := context.AfterFunc(ctx, func() { closed <- listener.Close() })
	err := accept(server, listener)
	if cancel() {
		// accept may have failed before the server knew of the listener.
		return errors.Join(fmt.Errorf("serve %s: %w", listener.Addr(), err), server.Close(), unlessClosed(listener.Close()))
	}
	err = unlessClosed(<-closed)
	server.SetKeepAlivesEnabled(false) // closes connections without a request
	answered := make(chan struct{})
	go func() {
		open.Wait()
		close(answered)
	}()
	select {
	//guard: a connection that is accepted while the server ends has an answer
	case <-answered:
	case <-time.After(grace):
	}
	return errors.Join(err, server.Close())
}

// unlessClosed returns the error of closing a listener, nil if it was closed before.
func unlessClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
