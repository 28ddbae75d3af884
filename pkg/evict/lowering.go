package evict

import (
	"context"
	"fmt"
	"time"
)

// maxLoweringPause bounds the pause between two calls of LowerLimit.
const maxLoweringPause = time.Hour

// lowerings paces the reloads of systemd for one lowered limit. The pause doubles with each: one
// that has not lowered the limit will hardly do so next time.
type lowerings struct {
	limit uint64
	pause time.Duration
	// next is the earliest time of the next try.
	next time.Time
}

// due reports whether to try, for the limit, which is in bytes.
func (l *lowerings) due(limit uint64, now time.Time) bool {
	//guard: a lowered limit does not wait for the pause of another
	if limit != l.limit {
		*l = lowerings{limit: limit}
	}
	if !now.After(l.next) {
		return false
	}
	l.pause = min(max(2*l.pause, retryInterval), maxLoweringPause)
	l.next = now.Add(l.pause)
	return true
}

// lower has systemd apply a lowered limit, in the background.
func (m *Manager) lower(ctx context.Context, limit uint64) {
	if !m.lowerings.due(limit, time.Now()) {
		return
	}
	m.background.Go(func() {
		if err := m.LowerLimit(ctx); err != nil && ctx.Err() == nil {
			m.Events.Warn(fmt.Errorf("applying the lowered memory limit: %w; it is tried again, within an hour", err))
		}
	})
}
