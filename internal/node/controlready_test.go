package node_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/node"
)

// readiness implements Readiness by a function.
type readiness func(ctx context.Context) error

func (r readiness) AwaitReady(ctx context.Context) error { return r(ctx) }

// TestAwaitReadyStarts: a service that is started later, in a folder that is created later, is
// found, and so is one that is restarted.
func TestAwaitReadyStarts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(node.ShortDir(t), "run", "monitor")
	path := filepath.Join(dir, "control")
	answer := make(chan error, 1)
	go func() { answer <- node.AwaitReadyAgain(t.Context(), path, time.Millisecond) }()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{})
	once := sync.OnceFunc(func() { close(asked) }) // it may be asked again while it stops
	_, stop := serveAt(t, path, nil, readiness(func(ctx context.Context) error {
		once()
		<-ctx.Done()
		return context.Cause(ctx)
	}))
	<-asked
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	serveAt(t, path, nil, readiness(func(context.Context) error { return nil }))
	if err := <-answer; err != nil {
		t.Error(err)
	}
}

// TestAwaitReadyEnds: it ends with its context, whether the service runs or not.
func TestAwaitReadyEnds(t *testing.T) {
	t.Parallel()
	late := errors.New("late")
	waits := make(chan struct{})
	served, _ := serveAt(t, filepath.Join(node.ShortDir(t), "control"), nil, readiness(func(ctx context.Context) error {
		close(waits)
		<-ctx.Done()
		return context.Cause(ctx)
	}))
	for name, socket := range map[string]string{"served": served, "none": filepath.Join(node.ShortDir(t), "a", "control")} {
		ctx, cancel := context.WithCancelCause(t.Context())
		answer := make(chan error, 1)
		go func() { answer <- node.AwaitReady(ctx, socket) }()
		if name == "served" {
			<-waits
		}
		cancel(late)
		if err := <-answer; !errors.Is(err, late) {
			t.Errorf("%s: %v; want the cause", name, err)
		}
	}
}
