package systemd

import (
	"context"
	"fmt"

	sd "github.com/coreos/go-systemd/v22/dbus"
)

// UnitFiles returns the files of a unit in the order in which systemd applies them: its own, then
// its drop-ins. A unit that does not exist has none.
func (c *Client) UnitFiles(ctx context.Context, name string) (files []string, err error) {
	err = c.do(ctx, func(ctx context.Context, conn *connection) error {
		own, err := unitProperty[string](ctx, conn, name, "FragmentPath")
		if err != nil {
			return err
		}
		files, err = unitProperty[[]string](ctx, conn, name, "DropInPaths")
		if own != "" {
			files = append([]string{own}, files...)
		}
		return err
	})
	return files, named("reading the files of", name, err)
}

// unitProperty reads a property that each unit has.
func unitProperty[T any](ctx context.Context, conn *connection, unit, name string) (value T, err error) {
	var p *sd.Property
	if p, err = conn.api.GetUnitPropertyContext(ctx, unit, name); err != nil {
		return value, err
	}
	if err = p.Value.Store(&value); err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return value, err
}
