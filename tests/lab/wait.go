package lab

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// DefaultTimeout is how long the waits and the commands of this package last when their context has no deadline. A node is
// ready after a fraction of it on two cores under software emulation.
const DefaultTimeout = 3 * time.Minute

// pollInterval is between two looks at a node. A look takes 20 to 100 ms of a guest's time.
const pollInterval = 250 * time.Millisecond

// restAfterLook is how many times as long as a look took nobody looks again: looks at a node take a fourth of its time at most.
const restAfterLook = 3

// WaitError says that something did not come about in time.
type WaitError struct {
	// What was waited for, and for how long.
	What    string
	Elapsed time.Duration
	// LastSeen is what the last look saw, and Err the error it returned, if it did.
	LastSeen string
	Err      error
	// Cause is why the wait ended.
	Cause error
}

// Error says what was waited for, how long and what was seen last.
func (e *WaitError) Error() string {
	text := fmt.Sprintf("%s: not seen in %.1f s (%v)", e.What, e.Elapsed.Seconds(), e.Cause)
	if e.LastSeen != "" {
		text += ": last seen: " + e.LastSeen
	}
	if e.Err != nil {
		text += ": last error: " + e.Err.Error()
	}
	return text
}

// Unwrap returns why the wait ended and the last error.
func (e *WaitError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Cause}
	}
	return []error{e.Cause, e.Err}
}

// withDefaultTimeout gives a context that has no deadline one.
func withDefaultTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, DefaultTimeout, fmt.Errorf("not over after %s: %w", DefaultTimeout, context.DeadlineExceeded))
}

// waitFor looks until cond holds. It looks at once, and then at an interval, and at a longer one where a look takes long: what is
// waited for needs the processors, too. An error of cond is no end: a node that boots refuses connections.
func waitFor(ctx context.Context, what string, interval time.Duration, cond func(context.Context) (ok bool, seen string, err error)) error {
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
		// A look that the deadline cut off says less than the one before it.
		if ctx.Err() == nil || (lastSeen == "" && lastErr == nil) {
			lastSeen, lastErr = seen, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		if ctx.Err() != nil {
			return &WaitError{What: what, Elapsed: time.Since(began), LastSeen: lastSeen, Err: lastErr, Cause: context.Cause(ctx)}
		}
	}
}

// pauseAfter returns the pause between a look that took so long and the next one. A look that the node did not answer cost it no
// CPU time, so the pause is the interval. A node that starts answers no ssh connection: each is given up after bannerTimeout.
func pauseAfter(interval, took time.Duration, err error) time.Duration {
	if err != nil && !errors.As(err, new(*CommandError)) {
		return interval
	}
	return max(interval, restAfterLook*took)
}

// Eventually waits until cond holds, for as long as the context lasts or for DefaultTimeout. cond returns
// what it saw in a few words; the error of a wait that failed repeats the last of them.
func (n *Node) Eventually(ctx context.Context, what string, cond func(context.Context) (ok bool, seen string, err error)) error {
	if err := waitFor(ctx, what, pollInterval, cond); err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	return nil
}
