package livemove

import (
	"context"
	"errors"

	"nodepartition/internal/systemd"
)

// Stopper is what StopScope needs of systemd; *systemd.Client is one.
type Stopper interface {
	Kill(ctx context.Context, name string) error
	StopUnit(ctx context.Context, name string) error
}

// StopScope kills what is left in a scope whose container has ended. Where a container has no PID namespace of its own, its
// other processes outlive its first one until the runtime kills them, and after a live move it does not find them. It is no
// error when the scope is gone.
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
