package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// changes notifies those who wait that the state of the daemon may have changed.
type changes struct {
	mu   sync.Mutex
	next chan struct{} // closed at the next change; nil until it is needed
}

// note is called after a change.
func (c *changes) note() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// after returns a channel that is closed at the next change.
func (c *changes) after() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}

// await returns nil when check does, which it calls after each change. If ctx ends before that,
// await returns its cause with the last result of check.
func (c *changes) await(ctx context.Context, check func() error) error {
	for {
		changed := c.after()
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-changed:
		}
	}
}

// errInactive means that the slice of a partition does not exist.
var errInactive = errors.New("is not active")

// AwaitReady implements Readiness. A service that has no partition has nothing to be ready
// for.
func (m *monitor) AwaitReady(ctx context.Context) error {
	return m.changes.await(ctx, func() error {
		on := m.on()
		for _, name := range on {
			if !m.exists(name) {
				return fmt.Errorf("%s %w", name.Slice(), errInactive)
			}
		}
		//guard: the removal of a package does not wait for a service that has nothing to do
		if len(on) == 0 && m.followed.problem() == nil {
			return nil
		}
		return m.ready()
	})
}
