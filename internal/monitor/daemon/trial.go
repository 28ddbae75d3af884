package daemon

import (
	"context"
	"time"

	"nodepartition/internal/monitor/trial"
)

// endTrials reloads systemd if a pass sees a trial that is over and that its timer has not ended.
// The generator, which runs then, goes back. This program cannot write there.
func (m *monitor) endTrials(ctx context.Context) error {
	const pause = time.Minute // between two attempts
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.overdue:
		}
		m.log.Warn("a trial is over, and its timer has not ended it: reloading systemd to go back")
		if err := m.units.Reload(ctx); err != nil && ctx.Err() == nil {
			m.log.Error("ending a trial that is over failed; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// lookAtTrial makes endTrials act. It does not block a pass.
func (m *monitor) lookAtTrial() {
	if !trial.Overdue() {
		return
	}
	select {
	case m.overdue <- struct{}{}:
	default: // an attempt is under way, or was just made
	}
}
