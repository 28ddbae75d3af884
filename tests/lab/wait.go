package lab

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// defaultTimeout bounds the waits and the commands of this package whose context has no deadline. A
// node is ready after a fraction of it on two cores under software emulation.
const defaultTimeout = 3 * time.Minute

// pollInterval is the pause between two polls of a node. A poll takes 20 to 100 ms of a guest's
// time.
const pollInterval = 250 * time.Millisecond

// restAfterLook is the pause after a poll as a multiple of its duration, so that polls take a
// fourth of a node's time at most. mostRest bounds it: a poll may be slow because it waits for
// systemd, which takes 45 seconds to reload 200 pods on an emulated node.
const (
	restAfterLook = 3
	mostRest      = 5 * time.Second
)

// waitError means that a condition was not met in time.
type waitError struct {
	// What names the condition, and Elapsed the time waited for it.
	What    string
	Elapsed time.Duration
	// LastSeen holds the state that the last poll saw, and Err its error, if any.
	LastSeen string
	Err      error
	// Cause is the reason for the end of the wait.
	Cause error
}

// Error returns the condition, the time waited and the last state seen.
func (e *waitError) Error() string {
	text := fmt.Sprintf("%s: not seen in %.1f s (%v)", e.What, e.Elapsed.Seconds(), e.Cause)
	if e.LastSeen != "" {
		text += ": last seen: " + e.LastSeen
	}
	if e.Err != nil {
		text += ": last error: " + e.Err.Error()
	}
	return text
}

// Unwrap returns the reason for the end of the wait and the last error.
func (e *waitError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Cause}
	}
	return []error{e.Cause, e.Err}
}

// withDefaultTimeout returns a context with defaultTimeout, unless ctx has a deadline.
func withDefaultTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(
		ctx,
		defaultTimeout,
		fmt.Errorf("not over after %s: %w", defaultTimeout, context.DeadlineExceeded),
	)
}

// waitFor polls until cond holds. It polls at once, and then at an interval. The interval is longer
// if a poll takes long, because the node needs the processors, too. An error of cond does not end
// the wait: a node that boots refuses connections.
func waitFor(
	ctx context.Context,
	what string,
	interval time.Duration,
	cond func(context.Context) (ok bool, seen string, err error),
) error {
	began := time.Now()
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	var lastSeen string
	var lastErr error
	for {
		look := time.Now()
		ok, seen, err := cond(ctx)
		pause := pauseAfter(interval, time.Since(look), err)
		if ok && err == nil {
			return nil
		}
		// A poll that the deadline cut off shows less than the one before it.
		if ctx.Err() == nil || (lastSeen == "" && lastErr == nil) {
			lastSeen, lastErr = seen, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		if ctx.Err() != nil {
			return &waitError{
				What:     what,
				Elapsed:  time.Since(began),
				LastSeen: lastSeen,
				Err:      lastErr,
				Cause:    context.Cause(ctx),
			}
		}
	}
}

// pauseAfter returns the pause between a poll that took so long and the next one. A poll without an
// answer from the node cost the node no CPU time, so the pause is the interval. A node that starts
// answers no ssh connection: each ends after bannerTimeout.
func pauseAfter(interval, took time.Duration, err error) time.Duration {
	if err != nil && !errors.As(err, new(*CommandError)) {
		return interval
	}
	return max(interval, min(restAfterLook*took, mostRest))
}

// Eventually waits until cond holds, until ctx ends or for defaultTimeout. cond returns the state
// it saw in a few words. The error of a failed wait repeats the last of them.
func (n *Node) Eventually(
	ctx context.Context,
	what string,
	cond func(context.Context) (ok bool, seen string, err error),
) error {
	if err := waitFor(ctx, what, pollInterval, cond); err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	return nil
}
