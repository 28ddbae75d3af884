package daemon

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
)

// TestChangesAwait: the check is made at once and after each change, and never in between.
func TestChangesAwait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c changes
		checks, left := 0, 3
		done := make(chan error, 1)
		go func() {
			done <- c.await(t.Context(), func() error {
				if checks++; checks <= left {
					return errNotYet
				}
				return nil
			})
		}()
		for n := 1; n <= left; n++ {
			synctest.Wait()
			if checks != n {
				t.Errorf("%d checks; want %d", checks, n)
			}
			c.note()
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		c.note() // no one waits
		stopped := errors.New("the service is stopping")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { done <- c.await(ctx, func() error { return errNotYet }) }()
		synctest.Wait()
		cancel(stopped)
		if err := <-done; !errors.Is(err, stopped) || !strings.Contains(err.Error(), errNotYet.Error()) {
			t.Errorf("%v; want the cause, and why not", err)
		}
	})
}
