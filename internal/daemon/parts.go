package daemon

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// inOrder runs the parts of the program until ctx ends or one of them fails. It ends them in
// reverse, each one when all after it have ended: a part may need those before it to its end. A
// part that returns nil ends no other.
func inOrder(ctx context.Context, parts ...func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	ended := make([]chan struct{}, len(parts))
	for i := range parts {
		ended[i] = make(chan struct{})
	}
	for i, run := range parts {
		own, end := context.WithCancel(context.WithoutCancel(ctx))
		group.Go(func() error {
			<-ctx.Done()
			//guard: the connection to systemd ends after those that need it
			for _, later := range ended[i+1:] {
				<-later
			}
			end()
			return nil
		})
		group.Go(func() error {
			defer close(ended[i])
			if err := run(own); ctx.Err() == nil {
				return err
			}
			return nil // it was about to be ended
		})
	}
	return group.Wait()
}

// together returns a part that runs parts, which end at the same time.
func together(parts ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		for _, run := range parts {
			group.Go(func() error { return run(ctx) })
		}
		return group.Wait()
	}
}
