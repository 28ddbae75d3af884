package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// SetScopeCPU changes the CPU weight of a container's scope, 1 to 10000, and its quota in
// microseconds per second. A quota of 0 stays as it is, and math.MaxUint64 lifts it. It returns nil
// if there is no such scope, because the container has ended. ForgetScope removes the settings
// afterwards.
func (c *Client) SetScopeCPU(ctx context.Context, name string, weight, quotaPerSec uint64) error {
	properties := []Property{{"CPUWeight", weight}}
	if quotaPerSec != 0 {
		properties = append(properties, Property{"CPUQuotaPerSecUSec", quotaPerSec})
	}
	err := c.set(ctx, name, properties...)
	if errors.Is(err, ErrNoUnit) {
		return nil
	}
	return err
}

// ForgetScope removes the settings of SetScopeCPU of a scope that is gone. systemd keeps their
// files, which are called differently from the properties, until the next boot.
func (c *Client) ForgetScope(name string) error {
	var all []error
	for _, file := range []string{"50-CPUWeight.conf", "50-CPUQuota.conf"} {
		err := os.Remove(filepath.Join(c.dropIns(name), file))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			all = append(all, fmt.Errorf("forgetting the settings of %s: %w", name, err))
		}
	}
	// Fails if other drop-ins are left.
	_ = os.Remove(c.dropIns(name))
	return errors.Join(all...)
}
