package systemd

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// setUpTimeout is how long connecting may take. The bus' socket is there while its daemon restarts, for systemd holds it.
const setUpTimeout = 2 * time.Second

// reconnectPause is how long Run waits between attempts to connect.
func reconnectPause() wait.Backoff {
	return wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 8, Cap: 5 * time.Second}
}

// retryPause is how long a method waits before it tries again what was interrupted.
func retryPause() wait.Backoff {
	return wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 5, Cap: 500 * time.Millisecond}
}

// sleep waits and reports whether ctx still lasts.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Run keeps a connection to systemd until ctx ends, and returns why that was. It calls the functions of Options, one at a
// time; while one of them runs, what happens is remembered once.
func (c *Client) Run(ctx context.Context) error {
	var notifying sync.WaitGroup
	notifying.Go(func() { c.notices.deliver(ctx, c.options) })
	defer notifying.Wait()

	for pause := reconnectPause(); ctx.Err() == nil; {
		conn, err := c.connect(ctx)
		if err != nil {
			c.setConnection(nil, err)
			sleep(ctx, pause.Step())
			continue
		}
		pause = reconnectPause()
		for conn != nil {
			c.setConnection(conn, nil)
			c.notices.connected(true)
			next := c.hold(ctx, conn)
			conn.close()
			conn = next
		}
		c.setConnection(nil, errLost)
		c.notices.connected(false)
	}
	return context.Cause(ctx)
}

// connect prefers the bus: over it systemd knows who we are, and its own socket takes root alone.
func (c *Client) connect(ctx context.Context) (*connection, error) {
	conn, busErr := c.dial(ctx, c.options.BusAddress, onBus)
	if busErr == nil {
		return conn, nil
	}
	conn, err := c.dial(ctx, c.options.PrivateAddress, direct)
	if err != nil {
		return nil, &connectError{Bus: busErr, Direct: err}
	}
	return conn, nil
}

// hold watches over a connection until it ends. While it is not one to the bus, it looks for the bus, and returns a
// connection to that when it is back.
func (c *Client) hold(ctx context.Context, conn *connection) *connection {
	pause := reconnectPause()
	for {
		var lookForBus <-chan time.Time
		var timer *time.Timer
		if conn.way == direct {
			timer = time.NewTimer(pause.Step())
			lookForBus = timer.C
		}
		select {
		case <-ctx.Done():
			return nil
		case <-conn.ctx.Done():
			return nil
		case <-conn.filter.newOwner:
			// systemd has executed itself anew, or has left the bus and come back. It forgets its subscribers then.
			if err := c.resubscribe(ctx, conn); err != nil {
				return nil
			}
			c.notices.resynced()
		case <-lookForBus:
			if next, err := c.dial(ctx, c.options.BusAddress, onBus); err == nil {
				return next
			}
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

// resubscribe is subscribe with an end.
func (c *Client) resubscribe(ctx context.Context, conn *connection) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	return subscribe(ctx, conn)
}
