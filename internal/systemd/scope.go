package systemd

import (
	"context"
	"errors"

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

// StopScope kills the remaining processes in a scope whose container has ended. If a container has
// no PID namespace of its own, its other processes outlive its first one until the runtime kills
// them, and after a live move the runtime does not find them. If the scope is gone, StopScope
// returns nil.
func (c *Client) StopScope(ctx context.Context, name string) error {
	err := named("killing", name, c.do(ctx, func(ctx context.Context, conn *connection) error {
		return conn.api.KillUnitWithTarget(ctx, name, sd.All, int32(unix.SIGKILL))
	}))
	if err == nil {
		err = c.stop(ctx, name, "replace")
	}
	if errors.Is(err, ErrNoUnit) {
		return nil
	}
	return err
}

// SetScopeCPU changes the CPU weight of a container's scope, 1 to 10000, and its quota in
// microseconds per second. A quota of 0 stays as it is, and math.MaxUint64 lifts it. It returns nil
// if there is no such scope, because the container has ended. systemd keeps the values of a
// transient unit in /run/systemd/transient, over a reload too, and removes them with the unit
// (unit_drop_in_dir, unit_remove_transient, src/core/unit.c).
func (c *Client) SetScopeCPU(ctx context.Context, name string, weight, quotaPerSec uint64) error {
	properties := []Property{{"CPUWeight", weight}}
	if quotaPerSec != 0 {
		properties = append(properties, Property{"CPUQuotaPerSecUSec", quotaPerSec})
	}
	err := c.set(ctx, name, properties...)
	//guard: a scope that is gone cannot be set
	if errors.Is(err, ErrNoUnit) {
		return nil
	}
	return err
}

// ResetFailed makes systemd forget a unit that has failed. Otherwise its name could not be used
// again.
func (c *Client) ResetFailed(ctx context.Context, name string) error {
	return named("resetting", name, c.do(ctx, func(ctx context.Context, conn *connection) error {
		return conn.api.ResetFailedUnitContext(ctx, name)
	}))
}

func unitPath(name string) dbus.ObjectPath {
	return objectPath + "/unit/" + dbus.ObjectPath(sd.PathBusEscape(name))
}
