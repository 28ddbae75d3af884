package testkit

import (
	"context"
	"testing"
)

// Background runs a loop until the test ends, and waits for its end.
func Background(tb testing.TB, loop func(context.Context) error) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = loop(ctx)
	}()
	tb.Cleanup(func() {
		cancel()
		<-done
	})
}
