package systemd

import (
	"context"
	"fmt"
)

// Reload has systemd run its generators and read its units again, as systemctl daemon-reload does. It returns when that is done.
func (c *Client) Reload(ctx context.Context) error {
	if err := c.do(ctx, func(ctx context.Context, conn *connection) error { return conn.call(ctx, "Reload") }); err != nil {
		return fmt.Errorf("reloading systemd: %w", err)
	}
	return nil
}
