package livemove

import (
	"context"
	"errors"

	"node-partition.io/node-partition/internal/systemd"
)

// Stopper kills and stops units of systemd. *systemd.Client implements it.
type Stopper interface {
	Kill(ctx context.Context, name string) error
	StopUnit(ctx context.Context, name string) error
}

// StopScope kills the remaining processes in a scope whose container has ended. If a container has
// no PID namespace of its own, its other processes outlive its first one until the runtime kills
// them, and after a live move the runtime does not find them. If the scope is gone, StopScope
// returns nil.
func StopScope(ctx context.Context, s Stopper, name string) error {
	for _, step := range []func(context.Context, string) error{s.Kill, s.StopUnit} {
		if err := step(ctx, name); err != nil {
			if errors.Is(err, systemd.ErrNoUnit) {
				return nil
			}
			return err
		}
	}
	return nil
}
