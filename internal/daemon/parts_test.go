package daemon

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
)

// TestInOrder: the parts end in reverse, each after the next one: what takes something back on the
// way out has what it needs. A part that fails ends the others, and one that has nothing to do ends
// none.
func TestInOrder(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var ended []string
	part := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, name)
			return ctx.Err()
		}
	}
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	parts := make([]func(context.Context) error, 0, len(names))
	for _, name := range names {
		parts = append(parts, part(name))
	}
	slices.Reverse(names)
	idle := func(context.Context) error { return nil }
	ctx, stop := context.WithCancel(t.Context())
	begun := func(context.Context) error {
		stop()
		return nil
	}
	if err := inOrder(ctx, append(slices.Insert(parts, 4, idle), begun)...); err != nil || !slices.Equal(ended, names) {
		t.Errorf("%v, ended %q; want %q", err, ended, names)
	}
	ended = nil
	broken := errors.New("broken")
	fails := func(context.Context) error { return broken }
	if err := inOrder(t.Context(), append(parts, together(idle, fails))...); !errors.Is(err, broken) || !slices.Equal(ended, names) {
		t.Errorf("%v, ended %q; want %v, %q", err, ended, broken, names)
	}
}
