package systemd

import (
	"context"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// Properties holds properties of a unit, as systemd returns them.
type Properties map[string]dbus.Variant

// Get stores a property into the variable that to points to, which has the type that Property has
// for it. It reports false if systemd does not have the property, or has it with another type.
func (p Properties) Get(name string, to any) bool {
	v, ok := p[name]
	return ok && v.Store(to) == nil
}

// ScopeProperties returns all properties that only scopes have, in one call. It returns ErrNoUnit
// if the scope is inactive: systemd answers the defaults for a unit that does not exist.
func (c *Client) ScopeProperties(ctx context.Context, name string) (Properties, error) {
	var all Properties
	err := c.do(ctx, func(ctx context.Context, conn *connection) error {
		call := conn.calls.Object(busName, unitPath(name)).
			CallWithContext(ctx, "org.freedesktop.DBus.Properties.GetAll", 0, busName+".Scope")
		return call.Store(&all)
	})
	if err != nil {
		return nil, named("reading properties of", name, err)
	}
	var cgroup string
	if !all.Get("ControlGroup", &cgroup) || cgroup == "" {
		return nil, named("reading properties of", name, ErrNoUnit)
	}
	return all, nil
}

// StartScope makes a scope and moves processes into it. If one of them ends meanwhile, the scope
// fails, although others may be in it. StartScope returns ErrUnitExists if there is a unit of that
// name.
func (c *Client) StartScope(ctx context.Context, name string, properties []Property, pids []uint32) error {
	all := append([]Property{{"PIDs", pids}}, properties...)
	return named("starting", name, c.do(ctx, func(ctx context.Context, conn *connection) error {
		return conn.job(ctx, func(result chan<- string) error {
			_, err := conn.api.StartTransientUnitContext(ctx, name, "fail", variants(all), result)
			return err
		})
	}))
}

// Freeze freezes the processes of a unit, and returns when all are frozen.
func (c *Client) Freeze(ctx context.Context, name string) error {
	return named("freezing", name, c.do(ctx, func(ctx context.Context, conn *connection) error {
		return conn.api.FreezeUnit(ctx, name)
	}))
}

// Thaw lets the processes of a unit run again.
func (c *Client) Thaw(ctx context.Context, name string) error {
	return named("thawing", name, c.do(ctx, func(ctx context.Context, conn *connection) error {
		return conn.api.ThawUnit(ctx, name)
	}))
}

// Kill sends SIGKILL to all processes of a unit.
func (c *Client) Kill(ctx context.Context, name string) error {
	return named("killing", name, c.do(ctx, func(ctx context.Context, conn *connection) error {
		return conn.api.KillUnitWithTarget(ctx, name, sd.All, int32(unix.SIGKILL))
	}))
}

// ResetFailed makes systemd forget a unit that has failed. Otherwise its name could not be used
// again.
func (c *Client) ResetFailed(ctx context.Context, name string) error {
	return named("resetting", name, c.do(ctx, func(ctx context.Context, conn *connection) error {
		return conn.api.ResetFailedUnitContext(ctx, name)
	}))
}

// StopUnit stops a unit and its processes, as its KillMode= says, with SIGTERM first.
func (c *Client) StopUnit(ctx context.Context, name string) error {
	return c.stop(ctx, name, "replace")
}

func unitPath(name string) dbus.ObjectPath {
	return objectPath + "/unit/" + dbus.ObjectPath(sd.PathBusEscape(name))
}
