package evict

import (
	"context"
	"fmt"
	"time"
)

// maxLowerings limits the calls of LowerLimit for one limit: further ones would not lower it
// either.
const maxLowerings = 5

// lowerings counts the reloads of systemd for one lowered limit.
type lowerings struct {
	limit uint64
	tries int
	// next is the earliest time of the next try.
	next time.Time
}

// due counts a try for the limit, which is in bytes, and reports whether to make it.
func (l *lowerings) due(limit uint64, now time.Time) bool {
	if !now.After(l.next) {
		return false
	}
	if limit != l.limit {
		l.limit, l.tries = limit, 0
	}
	if l.tries++; l.tries > maxLowerings {
		return false
	}
	l.next = now.Add(retryInterval)
	return true
}

// lower has systemd apply a lowered limit, in the background.
func (m *Manager) lower(ctx context.Context, limit uint64) {
	if !m.lowerings.due(limit, time.Now()) {
		return
	}
	m.background.Go(func() {
		if err := m.LowerLimit(ctx); err != nil && ctx.Err() == nil {
			m.Events.Warn(fmt.Errorf("applying the lowered memory limit: %w; it is tried again", err))
		}
	})
}
