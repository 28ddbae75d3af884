package web

import (
	"context"
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
	// Log logs what does not keep the server from serving.
	Log *slog.Logger
	// Pause is the time between two attempts; 0 means five seconds.
	Pause time.Duration
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
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", l.Address)
	if err != nil {
		return err
	}
	l.Changed(nil)
	if l.Config != "" {
		return l.serveProtected(ctx, listener)
	}
	server := newServer(l.Handler)
	server.ErrorLog = slog.NewLogLogger(l.Log.Handler(), slog.LevelWarn)
	return serveBy(ctx, listener, server, (*http.Server).Serve)
}
