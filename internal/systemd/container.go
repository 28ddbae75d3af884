package systemd

import (
	"context"
	"errors"
)

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
