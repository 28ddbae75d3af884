package web

import (
	"context"
	"fmt"
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
	pause := l.Pause
	if pause == 0 {
		pause = retryPause
	}
	var config net.ListenConfig
	for {
		listener, err := config.Listen(ctx, "tcp", l.Address)
		if err == nil {
			l.Changed(nil)
			err = Serve(ctx, listener, l.Handler)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l.Changed(err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}
