package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"nodepartition/internal/unitname"
	"nodepartition/pkg/podmove"
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

var (
	// errInactive means that the slice of a partition does not exist.
	errInactive = errors.New("is not active")
	// errLeaving means that all partitions are switched off, and pods leave them.
	errLeaving = errors.New("pods are leaving the partition, which is switched off")
)

// AwaitReady implements control.Readiness.
func (m *monitor) AwaitReady(ctx context.Context) error {
	return m.changes.await(ctx, func() error {
		if err := settled(m.on(), m.exists, m.table.Report()); err != nil {
			return err
		}
		return m.ready()
	})
}

// settled returns which of the partitions that are on is not active, or that pods leave if none is.
func settled(on []unitname.PartitionName, active func(unitname.PartitionName) bool, last podmove.Report) error {
	for _, name := range on {
		if !active(name) {
			return fmt.Errorf("%s %w", name.Slice(), errInactive)
		}
	}
	//guard: the removal of a package waits for pods that leave
	if len(on) == 0 && last.Moves() {
		return errLeaving
	}
	return nil
}
