package status

import (
	"context"
	"errors"
	"fmt"
	"time"

	"node-partition.io/node-partition/internal/node"
)

var (
	// errNotInTime is the cause of the end of a wait.
	errNotInTime = errors.New("not in time")
	// errLeaving means that all partitions are switched off, and pods leave them.
	errLeaving = errors.New("all partitions are switched off, and pods are leaving them")
)

// lookEvery is the pause between two looks at pods that leave.
const lookEvery = time.Second

// Await waits until the partition is active and the service ready or, while all partitions are
// switched off, until no pod is leaving them; for timeout at most if that is not 0. The error of a
// wait that ended has the reason.
func Await(ctx context.Context, o node.Options, socket string, timeout time.Duration) error {
	waiting := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeoutCause(ctx, timeout, errNotInTime)
		defer cancel()
	}
	err := node.AwaitReady(waiting, socket)
	if errors.Is(err, errNotInTime) {
		return fmt.Errorf("not ready after %s: %s", timeout, node.Service{Socket: socket, Listen: o.Listen}.Ready(ctx))
	}
	for err == nil && isLeaving(ctx, o) { // a look may take longer than the wait
		select {
		case <-waiting.Done():
			err = fmt.Errorf("%w: %w", context.Cause(waiting), errLeaving)
		case <-time.After(lookEvery):
		}
	}
	return err
}

// isLeaving reports whether all partitions are switched off, and a pod is leaving one. It decides
// that by itself: the last reconcile of the service may have been before they were switched off.
// Pods that are not known do not leave.
func isLeaving(ctx context.Context, o node.Options) bool {
	config, err := node.Load(o.Node, o.Mode)
	policy := config.Policy()
	if err != nil || !policy.Off() {
		return false
	}
	report, _, err := readPods(ctx, o, policy)
	//guard: the removal of a package waits for pods that leave
	return err == nil && report.Moves()
}
