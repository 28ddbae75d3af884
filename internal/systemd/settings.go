package systemd

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/godbus/dbus/v5"
)

// ScopeSettings returns ControlGroup and the properties of a scope that were set: all that ScopeProperties returns, without
// what is counted and without most of what has its default. It returns ErrNoUnit when the scope does not run.
//
// It reads the files that systemd keeps a transient unit in, as systemctl cat does. What is set through D-Bus is written there
// (unit_write_setting, src/core/unit.c), because systemd itself knows it from there after a daemon-reload. Of systemd it asks two
// properties that it only has to look up; for GetAll it reads what is counted from the files of the cgroup and, for
// MemoryAvailable, of those above, and sends two hundred properties. Where a file says something that is not understood here,
// and where there is no such file, systemd is asked for all of them after all.
func (c *Client) ScopeSettings(ctx context.Context, name string) (Properties, error) {
	var cgroup dbus.Variant
	var set Properties
	err := c.do(ctx, func(ctx context.Context, conn *connection) error {
		unit := conn.calls.Object(busName, unitPath(name))
		get := func(property, iface string) *dbus.Call {
			return unit.GoWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, nil, busName+iface, property)
		}
		// Both questions are under way before the first answer is waited for.
		askedGroup, askedDropIns := get("ControlGroup", ".Scope"), get("DropInPaths", ".Unit")
		var f unitFiles
		// Of the directories that units are looked for in, only those of drop-ins that are set come before this one
		// (systemd.unit(5)).
		fileErr := f.read(filepath.Join(c.options.TransientDir, name), false)
		var dropIns []string
		err := errors.Join((<-askedGroup.Done).Store(&cgroup), (<-askedDropIns.Done).Store(&dropIns))
		if err != nil {
			return err
		}
		for _, path := range dropIns {
			fileErr = errors.Join(fileErr, f.read(path, true))
		}
		if set = nil; fileErr == nil && f.delegated {
			set = f.properties()
		}
		return nil
	})
	if err != nil {
		return nil, named("reading settings of", name, err)
	}
	if path, ok := cgroup.Value().(string); !ok || path == "" {
		return nil, named("reading settings of", name, ErrNoUnit)
	}
	if set == nil {
		return c.ScopeProperties(ctx, name)
	}
	set["ControlGroup"] = cgroup
	return set, nil
}

// read adds what a unit file says.
func (f *unitFiles) read(path string, dropIn bool) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return f.add(string(text), dropIn)
}
