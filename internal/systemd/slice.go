package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
)

// EnsureSlice makes a slice with these limits, or applies them to the existing slice of that name.
// That one is ours, or was implicitly created by systemd, without limits, when a scope was started
// in it.
func (c *Client) EnsureSlice(ctx context.Context, name, description string, limits cgroups.Limits) error {
	properties := limitProperties(limits)
	err := c.do(ctx, func(ctx context.Context, conn *connection) error {
		return conn.job(ctx, func(result chan<- string) error {
			_, err := conn.api.StartTransientUnitContext(
				ctx,
				name,
				"replace",
				variants(c.sliceProperties(description, properties)),
				result,
			)
			return err
		})
	})
	err = named("starting", name, err)
	if errors.Is(err, ErrUnitExists) {
		// An existing unit accepts only changes of its limits and its description.
		err = c.set(ctx, name, append(properties, Property{"Description", description})...)
		if err == nil {
			err = c.StartConfiguredSlice(ctx, name)
		}
	}
	if err != nil {
		return err
	}
	return c.checkLimits(ctx, name, limits)
}

// checkLimits checks that a slice has its limits, and otherwise sets them again. An implicitly
// created slice whose limits were set keeps those over the ones of a later StartTransientUnit (seen
// with 252.39).
func (c *Client) checkLimits(ctx context.Context, name string, want cgroups.Limits) error {
	got, err := c.options.Cgroups.Limits(partition.CgroupPath(name))
	if err != nil {
		return fmt.Errorf("starting %s: systemd reports success, but: %w", name, err)
	}
	if got == want {
		return nil
	}
	return c.SetLimits(ctx, name, want)
}

// sliceProperties returns the properties of a slice as the kubelet's systemd driver sets them
// (UnifiedManager.Apply, opencontainers/cgroups systemd/v2.go), with Documentation= in addition.
func (c *Client) sliceProperties(description string, limits []Property) []Property {
	properties := []Property{
		{"Description", description},
		{"DefaultDependencies", false}, // pods end with their runtime and not before it
		{"MemoryAccounting", true},
		{"CPUAccounting", true},
		{"IOAccounting", true},
		{"TasksAccounting", true},
	}
	if c.options.Documentation != "" {
		properties = append(properties, Property{"Documentation", []string{c.options.Documentation}})
	}
	return append(properties, limits...)
}

// SetLimits changes the limits of a slice until the next boot.
func (c *Client) SetLimits(ctx context.Context, name string, limits cgroups.Limits) error {
	return c.set(ctx, name, limitProperties(limits)...)
}

// SetCPUWeight changes the weight of a slice, 1 to 10000, until the next boot or Revert.
func (c *Client) SetCPUWeight(ctx context.Context, name string, weight uint64) error {
	return c.set(ctx, name, Property{"CPUWeight", weight})
}

// SetMemoryProtection changes the protected memory of a slice until the next boot or Revert.
func (c *Client) SetMemoryProtection(ctx context.Context, name string, p cgroups.Protection) error {
	return c.set(ctx, name, Property{"MemoryMin", p.Min}, Property{"MemoryLow", p.Low})
}

func (c *Client) set(ctx context.Context, name string, properties ...Property) error {
	return named("setting properties of", name, c.do(ctx, func(ctx context.Context, conn *connection) error {
		return conn.api.SetUnitPropertiesContext(ctx, name, true, variants(properties)...)
	}))
}

// StopSlice stops an empty slice and removes the settings made on it. It returns ErrPopulated if
// the slice has processes, and nil if there is no such slice.
func (c *Client) StopSlice(ctx context.Context, name string) error {
	if err := c.stopEmpty(ctx, name); err != nil {
		return err
	}
	return c.forget(ctx, name)
}

func (c *Client) stopEmpty(ctx context.Context, name string) error {
	switch populated, err := c.options.Cgroups.Populated(partition.CgroupPath(name)); {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return fmt.Errorf("stopping %s: %w", name, err)
	case populated:
		return fmt.Errorf("stopping %s: %w", name, ErrPopulated)
	}
	// A container may start at this moment. A stop with dependencies would stop its scope too; without
	// them the scope stays.
	//guard: a slice is stopped without what depends on it
	if err := c.stop(ctx, name, "ignore-dependencies"); !errors.Is(err, ErrNoUnit) {
		return err
	}
	return nil
}

// StartConfiguredSlice starts a slice that has a unit file, and what that wants. It returns
// ErrNoUnit if there is no such file.
func (c *Client) StartConfiguredSlice(ctx context.Context, name string) error {
	return named("starting", name, c.do(ctx, func(ctx context.Context, conn *connection) error {
		return conn.job(ctx, func(result chan<- string) error {
			_, err := conn.api.StartUnitContext(ctx, name, "replace", result)
			return err
		})
	}))
}

// StopConfiguredSlice stops an empty slice that has a unit file, and removes the weight and the
// memory protection that were set on it. An operator's settings in /etc stay. It returns the errors
// of StopSlice.
func (c *Client) StopConfiguredSlice(ctx context.Context, name string) error {
	if err := c.stopEmpty(ctx, name); err != nil {
		return err
	}
	return c.Revert(ctx, name)
}

// forget removes the drop-ins that SetUnitProperties wrote. systemd removes the file of a transient
// unit together with the unit, but these drop-ins stay until the next boot. They would apply to a
// later pod with the same UID, which a static pod has.
func (c *Client) forget(ctx context.Context, name string) error {
	if _, err := os.Lstat(c.dropIns(name)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return named("reverting", name, c.do(ctx, func(ctx context.Context, conn *connection) error {
		return conn.call(ctx, "RevertUnitFiles", []string{name})
	}))
}

// Revert removes the settings of SetCPUWeight and SetMemoryProtection from slices that have a unit
// file. That takes effect with the next reload of systemd. Revert does not use RevertUnitFiles,
// which removes an operator's drop-ins in /etc too (systemctl(1), revert).
func (c *Client) Revert(_ context.Context, names ...string) error {
	var all []error
	for _, name := range names {
		for _, property := range []string{"CPUWeight", "MemoryMin", "MemoryLow"} {
			err := os.Remove(filepath.Join(c.dropIns(name), "50-"+property+".conf"))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				all = append(all, fmt.Errorf("reverting %s of %s: %w", property, name, err))
			}
		}
		// Fails if other drop-ins are left.
		_ = os.Remove(c.dropIns(name))
	}
	return errors.Join(all...)
}

func (c *Client) dropIns(name string) string {
	return filepath.Join(c.options.ControlDir, name+".d")
}

func (c *Client) stop(ctx context.Context, name, mode string) error {
	return named("stopping", name, c.do(ctx, func(ctx context.Context, conn *connection) error {
		return conn.job(ctx, func(result chan<- string) error {
			_, err := conn.api.StopUnitContext(ctx, name, mode, result)
			return err
		})
	}))
}
