package node

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"time"
)

// askAgain bounds the time between two requests to a service that neither answers nor comes back.
const askAgain = 30 * time.Second

// AwaitReady returns nil when the service answers that the partition is active and its pods are
// managed. If the service is not running, it waits until its socket is created. It returns the
// cause of the end of ctx, and an error at once without the right to open the socket.
func AwaitReady(ctx context.Context, socket string) error { return awaitReady(ctx, socket, askAgain) }

func awaitReady(ctx context.Context, socket string, again time.Duration) error {
	for {
		socketMade, err := watch(socket) // first, so that no socket is missed
		if err != nil {
			return err
		}
		_, _, err = request(ctx, socket, http.MethodGet, "/ready")
		if err == nil || ctx.Err() != nil || errors.Is(err, fs.ErrPermission) {
			socketMade.close()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		err = socketMade.wait(ctx, again)
		socketMade.close()
		if err != nil {
			return err
		}
	}
}
