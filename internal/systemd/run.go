package systemd

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// setUpTimeout bounds a connect. The bus' socket exists while its daemon restarts, because systemd
// holds it.
const setUpTimeout = 2 * time.Second

// reconnectPause returns the pauses of Run between attempts to connect.
func reconnectPause() wait.Backoff {
	return wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 8, Cap: 5 * time.Second}
}

// retryPause returns the pauses of a method before it retries an interrupted call.
func retryPause() wait.Backoff {
	return wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 5, Cap: 500 * time.Millisecond}
}

// lasting is the time after which a connection was a good one. One that is lost before, as to a
// broker that drops us or to a bus that restarts in a loop, is made again after a pause that grows.
const lasting = 10 * time.Second

// sleep waits for d. It reports whether ctx has not ended before.
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

// Run keeps a connection to systemd until ctx ends, and returns the cause of that. It calls the
// functions of Options, from several goroutines.
func (c *Client) Run(ctx context.Context) error {
	for pause := reconnectPause(); ctx.Err() == nil; {
		conn, err := c.connect(ctx)
		if err != nil {
			c.setConnection(nil, err)
			sleep(ctx, pause.Step())
			continue
		}
		var begin time.Time
		for conn != nil {
			begin = time.Now()
			c.setConnection(conn, nil)
			c.options.OnConnected(true)
			c.options.missed()
			next := c.hold(ctx, conn)
			conn.close()
			conn = next
		}
		c.setConnection(nil, errLost)
		if ctx.Err() != nil {
			break // a stop loses nothing
		}
		c.options.OnConnected(false)
		//guard: a connection to systemd that is lost at once is made again after a pause
		if time.Since(begin) >= lasting {
			pause = reconnectPause()
		}
		sleep(ctx, pause.Step())
	}
	return context.Cause(ctx)
}

// connect prefers the bus: over it systemd can identify the caller. Its own socket accepts only
// root.
func (c *Client) connect(ctx context.Context) (*connection, error) {
	conn, busErr := c.dial(ctx, c.options.BusAddress, onBus)
	if busErr == nil {
		return conn, nil
	}
	conn, err := c.dial(ctx, c.options.PrivateAddress, direct)
	if err != nil {
		return nil, fmt.Errorf("%w; and without the bus: %w", busErr, err)
	}
	return conn, nil
}

// hold watches a connection until it ends. If the connection is direct, hold also tries to reach
// the bus, and returns a connection to it as soon as it is back.
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
			// systemd has re-executed, or has left the bus and come back. Either way it has lost its
			// subscribers.
			if err := c.resubscribe(ctx, conn); err != nil {
				return nil
			}
			c.options.missed()
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

func (c *Client) resubscribe(ctx context.Context, conn *connection) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	return subscribe(ctx, conn)
}
