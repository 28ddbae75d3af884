package systemd

import (
	"context"
	"fmt"
)

// Stopping reports whether the node is being shut down, rebooted, or soft-rebooted: whether systemd
// is stopping its units for that (systemctl is-system-running).
func (c *Client) Stopping(ctx context.Context) (bool, error) {
	var state string
	err := c.do(ctx, func(ctx context.Context, conn *connection) error {
		p, err := conn.api.SystemStateContext(ctx)
		return stored(p, err, &state)
	})
	if err != nil {
		return false, fmt.Errorf("the state of systemd: %w", err)
	}
	return state == "stopping", nil
}
