package systemd

import (
	"context"
	"errors"
	"strings"
	"time"
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

// RunService starts a transient service of Type=oneshot with AddRef, waits until its process has
// ended, for atMost at most, and has systemd forget a failure. The service runs on if the wait ends
// before, and systemd forgets it at its end if this client is gone. If one of that name runs
// already, RunService waits for its end before it starts its own.
func (c *Client) RunService(
	ctx context.Context,
	name string,
	properties []Property,
	atMost time.Duration,
) (Ended, error) {
	var ended Ended
	err := c.doFor(ctx, atMost, func(ctx context.Context, conn *connection) error { return conn.clear(ctx, name) })
	if err == nil {
		err = c.doFor(ctx, atMost, func(ctx context.Context, conn *connection) error {
			return conn.runService(ctx, name, properties)
		})
	}
	if err == nil {
		err = c.do(ctx, func(ctx context.Context, conn *connection) error {
			for property, value := range map[string]any{"Result": &ended.Result, "ExecMainStatus": &ended.Status} {
				p, err := conn.api.GetUnitTypePropertyContext(ctx, name, "Service", property)
				if err := stored(p, err, value); err != nil {
					return err
				}
			}
			return conn.clear(ctx, name)
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

// activeState returns the ActiveState of a unit: inactive if there is none.
func (c *connection) activeState(ctx context.Context, name string) (string, error) {
	var state string
	err := unitProperty(ctx, c, name, "ActiveState", &state)
	return state, err
}

func (c *connection) awaitEnd(ctx context.Context, name string) error {
	for {
		switch state, err := c.activeState(ctx, name); {
		case err != nil:
			return err
		case state != "activating" && state != "deactivating" && state != "reloading":
			return nil
		case !sleep(ctx, endedPause):
			return context.Cause(ctx)
		}
	}
}

// clear waits for the end of a service of that name, and has systemd forget it.
func (c *connection) clear(ctx context.Context, name string) error {
	if err := c.awaitEnd(ctx, name); err != nil {
		return err
	}
	state, err := c.activeState(ctx, name)
	switch {
	case err != nil:
		return err
	case state == "active":
		err = c.job(ctx, func(result chan<- string) error {
			_, err := c.api.StopUnitContext(ctx, name, "replace", result)
			return err
		})
	case state == "failed":
		err = c.api.ResetFailedUnitContext(ctx, name)
	}
	if isError(err, noSuchUnit) {
		return nil // systemd has forgotten it just now
	}
	return err
}

// Version returns the version of systemd. It is the smallest question to it.
func (c *Client) Version(ctx context.Context) (version string, err error) {
	err = c.do(ctx, func(_ context.Context, conn *connection) error {
		text, err := conn.api.GetManagerProperty("Version")
		version = strings.Trim(text, `"`)
		return err
	})
	return version, named("asking", "systemd", err)
}
