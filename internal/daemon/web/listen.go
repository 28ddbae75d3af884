package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// retryPause is the time after which a Listener tries an address again.
const retryPause = 5 * time.Second

// Listener serves on an address, and waits while it is not available: another process may have
// taken the port before us, and an address of the node may be added after our start.
type Listener struct {
	// Address is host:port.
	Address string
	Handler http.Handler
	// Changed is called with nil when the address is served. Each time that listening fails, or
	// serving ends, it is called with the error.
	Changed func(error)
	// Config is the path of a web configuration file with TLS certificates and passwords; empty means
	// that neither is asked for.
	Config string
	// Sockets keeps the socket while the service restarts.
	Sockets Sockets
	// Log logs what does not keep the server from serving.
	Log *slog.Logger
	// Pause is the time between two attempts; 0 means five seconds.
	Pause time.Duration
}

// Sockets keeps listening sockets for the next process. *fdstore.Store is one.
type Sockets interface {
	// Listener returns the socket that was kept for an address, or nil.
	Listener(address string) net.Listener
	// Keep stores a socket.
	Keep(address string, listener net.Listener) error
	// Drop removes the socket of an address.
	Drop(address string) error
}

// CheckAddress returns an error for an address that no process can ever listen on.
func CheckAddress(ctx context.Context, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if _, err := net.DefaultResolver.LookupPort(ctx, "tcp", port); err != nil {
		return fmt.Errorf("address %s: %w", address, err)
	}
	return nil
}

// Run serves until ctx is done.
func (l Listener) Run(ctx context.Context) error {
	if l.Pause == 0 {
		l.Pause = retryPause
	}
	for {
		err := l.serve(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l.Changed(err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(l.Pause):
		}
	}
}

// serve serves until ctx is done, or until listening or serving fails.
func (l Listener) serve(ctx context.Context) error {
	if err := checkConfig(l.Config); err != nil {
		return err
	}
	listener, err := l.listen(ctx)
	if err != nil {
		return err
	}
	if err := l.Sockets.Keep(l.Address, listener); err != nil {
		l.Log.Warn("clients are refused while the service restarts", "error", err)
	}
	l.Changed(nil)
	if l.Config == "" {
		server := newServer(l.Handler)
		server.ErrorLog = slog.NewLogLogger(l.Log.Handler(), slog.LevelWarn)
		err = serveBy(ctx, listener, server, (*http.Server).Serve)
	} else {
		err = l.serveProtected(ctx, listener)
	}
	if ctx.Err() == nil { // not the end of the service, whose next process takes the socket
		err = errors.Join(err, l.Sockets.Drop(l.Address))
	}
	return err
}

// listen returns the socket that the process before has left, or a new one.
func (l Listener) listen(ctx context.Context) (net.Listener, error) {
	if kept := l.Sockets.Listener(l.Address); kept != nil {
		return kept, nil
	}
	var config net.ListenConfig
	return config.Listen(ctx, "tcp", l.Address)
}
