package web

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

// retryPause is how long a Listener waits for an address that it did not get.
const retryPause = 5 * time.Second

// Listener serves at an address, and waits for it where it cannot have it yet: any process of the node may have taken the port
// while nobody listened, and an address of the node may come after us.
type Listener struct {
	// Address is host:port.
	Address string
	Handler http.Handler
	// Changed hears nil when the address is served, and why it is not each time that it could not be had, or was lost.
	Changed func(error)
	// Pause between two attempts; 0 is five seconds.
	Pause time.Duration
}

// CheckAddress returns an error for an address at which nobody can ever listen.
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
