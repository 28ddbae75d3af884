package systemd

import (
	"context"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// Properties are those of a unit, as systemd answers them.
type Properties map[string]dbus.Variant

// PropertiesOf makes Properties of values, for those who stand in for systemd.
func PropertiesOf(values ...Property) Properties {
	all := Properties{}
	for _, v := range variants(values) {
		all[v.Name] = v.Value
	}
	return all
}

// Get stores a property into the variable that to points to, of the type that Property has for it. It reports false where
// systemd does not know the property, and where its type is another.
func (p Properties) Get(name string, to any) bool {
	v, ok := p[name]
	return ok && v.Store(to) == nil
}

// ScopeProperties asks for all properties that scopes have and other units have not, in one call. It returns ErrNoUnit
// when the scope does not run: of a unit that does not exist systemd answers the defaults.
func (c *Client) ScopeProperties(ctx context.Context, name string) (Properties, error) {
	var all Properties
	err := c.do(ctx, func(ctx context.Context, conn *connection) error {
		call := conn.calls.Object(busName, unitPath(name)).CallWithContext(ctx, "org.freedesktop.DBus.Properties.GetAll", 0, busName+".Scope")
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

// StartScope makes a scope and moves processes into it. When one of them ends meanwhile the scope fails, although others may be
// in it. It returns ErrUnitExists where there is a unit of that name.
func (c *Client) StartScope(ctx context.Context, name string, properties []Property, pids []uint32) error {
	all := append([]Property{{"PIDs", pids}}, properties...)
	return named("starting", name, c.do(ctx, func(ctx context.Context, conn *connection) error {
		return conn.job(ctx, func(result chan<- string) error {
			_, err := conn.api.StartTransientUnitContext(ctx, name, "fail", variants(all), result)
			return err
		})
	}))
}

// Freeze stops the processes of a unit where they are, and returns when they stand still.
func (c *Client) Freeze(ctx context.Context, name string) error {
	return named("freezing", name, c.do(ctx, func(ctx context.Context, conn *connection) error {
		return conn.api.FreezeUnit(ctx, name)
	}))
}

// Thaw lets the processes of a unit go on.
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

// ResetFailed has systemd forget a unit that has failed, which would keep its name from being used again.
func (c *Client) ResetFailed(ctx context.Context, name string) error {
	return named("resetting", name, c.do(ctx, func(ctx context.Context, conn *connection) error {
		return conn.api.ResetFailedUnitContext(ctx, name)
	}))
}

// StopUnit stops a unit and what is in it, SIGTERM first, as its KillMode= says.
func (c *Client) StopUnit(ctx context.Context, name string) error {
	return c.stop(ctx, name, "replace")
}

func unitPath(name string) dbus.ObjectPath {
	return objectPath + "/unit/" + dbus.ObjectPath(sd.PathBusEscape(name))
}
