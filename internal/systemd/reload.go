package systemd

import (
	"context"
	"fmt"
	"time"
)

// reloadTimeout is how long a reload takes at most, as for systemctl daemon-reload (DEFAULT_TIMEOUT_USEC, 90 s). Reloads of 9 s were seen on a
// busy node; one that is taken for failed is made once more.
const reloadTimeout = 90 * time.Second

// Reload has systemd run its generators and read its units again, as systemctl daemon-reload does. It returns when that is done.
func (c *Client) Reload(ctx context.Context) error {
	err := c.doFor(ctx, max(reloadTimeout, c.options.Timeout), func(ctx context.Context, conn *connection) error { return conn.call(ctx, "Reload") })
	if err != nil {
		return fmt.Errorf("reloading systemd: %w", err)
	}
	return nil
}
