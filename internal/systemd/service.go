package systemd

import (
	"context"
	"errors"
	"time"

	"github.com/godbus/dbus/v5"
)

// Ended says how the process of a service has ended.
type Ended struct {
	// Result is systemd's word for it: success, exit-code, signal, timeout and others.
	Result string
	// Status is the exit status, or the number of a signal. 203 means that systemd could not
	// execute the program (EXIT_EXEC, systemd.exec(5)).
	Status int32
}

// endedPause is the time between two looks at a service whose end systemd does not report, because
// the connection was lost.
const endedPause = 500 * time.Millisecond

// RunService starts a transient service of Type=oneshot with AddRef, under a name that no other
// has, and waits until its process has ended, for atMost at most. The service runs on if the wait
// ends before. systemd forgets it when this client is gone.
func (c *Client) RunService(
	ctx context.Context,
	name string,
	properties []Property,
	atMost time.Duration,
) (Ended, error) {
	var ended Ended
	err := c.doFor(ctx, atMost, func(ctx context.Context, conn *connection) error {
		return conn.runService(ctx, name, properties)
	})
	if err == nil {
		err = c.do(ctx, func(ctx context.Context, conn *connection) error {
			p, err := conn.api.GetUnitTypePropertyContext(ctx, name, "Service", "Result")
			if err := stored(p, err, &ended.Result); err != nil {
				return err
			}
			p, err = conn.api.GetUnitTypePropertyContext(ctx, name, "Service", "ExecMainStatus")
			return stored(p, err, &ended.Status)
		})
	}
	return ended, named("running", name, err)
}

// runService starts the service and waits for its end. It may be called again after a lost
// connection, and then finds the service that it has started.
func (c *connection) runService(ctx context.Context, name string, properties []Property) error {
	err := c.job(ctx, func(result chan<- string) error {
		_, err := c.api.StartTransientUnitContext(ctx, name, "fail", variants(properties), result)
		return err
	})
	var failed jobError
	switch {
	case errors.As(err, &failed):
		return nil // its properties say more
	case isError(err, unitExists):
		return c.awaitEnd(ctx, name)
	}
	return err
}

func (c *connection) awaitEnd(ctx context.Context, name string) error {
	for {
		var state string
		switch err := unitProperty(ctx, c, name, "ActiveState", &state); {
		case err != nil:
			return err
		case state != "activating" && state != "deactivating" && state != "reloading":
			return nil
		case !sleep(ctx, endedPause):
			return context.Cause(ctx)
		}
	}
}

// Version returns the version of systemd. It is the smallest question to it.
func (c *Client) Version(ctx context.Context) (version string, err error) {
	err = c.do(ctx, func(ctx context.Context, conn *connection) error {
		// GetManagerProperty of go-systemd waits without a bound.
		var value dbus.Variant
		err := conn.calls.Object(busName, objectPath).
			CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, manager, "Version").Store(&value)
		if err != nil {
			return err
		}
		return value.Store(&version)
	})
	return version, named("asking", "systemd", err)
}
