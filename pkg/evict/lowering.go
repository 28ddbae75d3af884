package evict

import (
	"context"
	"fmt"
	"time"
)

// maxLowerings is how often LowerLimit is tried for one limit: what does not lower it then, will
// not.
const maxLowerings = 5

// lowerings counts the reloads of systemd for one lowered limit.
type lowerings struct {
	limit uint64
	tries int
	// next is when the next may be tried.
	next time.Time
}

// due counts a try for the limit, which is in bytes, and reports whether it is to be made.
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

// lower has systemd apply a limit that was lowered, in the background.
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
