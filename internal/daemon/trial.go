package daemon

import (
	"context"
	"log/slog"
	"time"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/node"
)

// overdue ends trials that are over and that their timer has not ended. It reloads systemd: the
// generator, which runs then, goes back. This program cannot write there.
type overdue struct {
	seen   chan struct{} // unbuffered: a reconcile has seen such a trial
	reload func(context.Context) error
	log    *slog.Logger
}

// run reloads systemd for a trial that was seen, and not again for a while.
func (o overdue) run(ctx context.Context) error {
	const pause = time.Minute // between two attempts
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-o.seen:
		}
		o.log.Warn("a trial is over, and its timer has not ended it: reloading systemd to go back")
		if err := o.reload(ctx); err != nil && ctx.Err() == nil {
			o.log.Error("ending a trial that is over failed; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		//guard: systemd is reloaded once a minute for a trial that is over
		case <-time.After(pause):
		}
	}
}

// look makes run act. It does not block a reconcile.
func (o overdue) look(root host.Root) {
	if !node.TrialOverdue(root) {
		return
	}
	o.note()
}

func (o overdue) note() {
	select {
	case o.seen <- struct{}{}:
	default: // an attempt is under way, or was just made
	}
}
