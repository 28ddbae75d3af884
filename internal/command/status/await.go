package status

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nodepartition/internal/node/control"
	"nodepartition/internal/node/options"
)

// errNotInTime is the cause of the end of a wait.
var errNotInTime = errors.New("not in time")

// Await waits until the partition is active and the service ready, for timeout at most if that is
// not 0. The error of a wait that ended has the reason why it is not ready.
func Await(ctx context.Context, o options.Options, socket string, timeout time.Duration) error {
	waiting := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeoutCause(ctx, timeout, errNotInTime)
		defer cancel()
	}
	err := control.AwaitReady(waiting, socket)
	if errors.Is(err, errNotInTime) {
		return fmt.Errorf("not ready after %s: %s", timeout, control.Service{Socket: socket, Listen: o.Listen}.Ready(ctx))
	}
	return err
}
