package systemd

import (
	"context"
	"fmt"
	"time"
)

// reloadTimeout bounds a reload, as for systemctl daemon-reload (DEFAULT_TIMEOUT_USEC, 90 s). A
// reload that counts as failed is made once more. Reloads of 9 s were seen on a busy node.
const reloadTimeout = 90 * time.Second

// Reload makes systemd run its generators and read its units again, as systemctl daemon-reload
// does. It returns when systemd is done.
func (c *Client) Reload(ctx context.Context) error {
	err := c.doFor(
		ctx,
		max(reloadTimeout, c.options.Timeout),
		func(ctx context.Context, conn *connection) error { return conn.call(ctx, "Reload") },
	)
	if err != nil {
		return fmt.Errorf("reloading systemd: %w", err)
	}
	return nil
}
