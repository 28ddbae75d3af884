package node

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"time"
)

// askAgain is the pause between two requests to a service that is not there or does not answer.
const askAgain = time.Second

// AwaitReady returns nil when the service answers that the partition is active and its pods are
// managed. If the service is not running, it waits until it does. It returns the cause of the end
// of ctx, and an error at once without the right to open the socket.
func AwaitReady(ctx context.Context, socket string) error { return awaitReady(ctx, socket, askAgain) }

func awaitReady(ctx context.Context, socket string, again time.Duration) error {
	for {
		_, _, err := request(ctx, socket, http.MethodGet, "/ready")
		if ctx.Err() == nil && (err == nil || errors.Is(err, fs.ErrPermission)) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(again):
		}
	}
}
