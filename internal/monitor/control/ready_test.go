package control

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// readiness implements Readiness by a function.
type readiness func(ctx context.Context) error

func (r readiness) AwaitReady(ctx context.Context) error { return r(ctx) }

// shortDir returns a folder whose path is short enough for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "control")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// TestAwaitReady: the answer comes when the service is ready.
func TestAwaitReady(t *testing.T) {
	t.Parallel()
	asked, ready := make(chan struct{}), make(chan struct{})
	socket, _ := controlAt(t, filepath.Join(shortDir(t), "control"), nil, readiness(func(context.Context) error {
		close(asked)
		<-ready
		return nil
	}))
	answer := make(chan error, 1)
	go func() { answer <- AwaitReady(t.Context(), socket) }()
	<-asked
	select {
	case err := <-answer:
		t.Fatalf("answered %v before it was ready", err)
	default:
	}
	close(ready)
	if err := <-answer; err != nil {
		t.Error(err)
	}
}

// TestAwaitReadyStarts: a service that is started later, in a folder that is created later, is
// found at once, and so is one that is restarted.
func TestAwaitReadyStarts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(shortDir(t), "run", "monitor")
	path := filepath.Join(dir, "control")
	answer := make(chan error, 1)
	// The creation of the socket alone ends the wait.
	go func() { answer <- awaitReady(t.Context(), path, time.Hour) }()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{})
	_, stop := controlAt(t, path, nil, readiness(func(ctx context.Context) error {
		close(asked)
		<-ctx.Done()
		return context.Cause(ctx)
	}))
	<-asked
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	controlAt(t, path, nil, readiness(func(context.Context) error { return nil }))
	if err := <-answer; err != nil {
		t.Error(err)
	}
}

// TestAwaitReadyEnds: it ends with its context, whether the service runs or not.
func TestAwaitReadyEnds(t *testing.T) {
	t.Parallel()
	late := errors.New("late")
	waits := make(chan struct{})
	served, _ := controlAt(t, filepath.Join(shortDir(t), "control"), nil, readiness(func(ctx context.Context) error {
		close(waits)
		<-ctx.Done()
		return context.Cause(ctx)
	}))
	for name, socket := range map[string]string{"served": served, "none": filepath.Join(shortDir(t), "a", "control")} {
		ctx, cancel := context.WithCancelCause(t.Context())
		answer := make(chan error, 1)
		go func() { answer <- AwaitReady(ctx, socket) }()
		if name == "served" {
			<-waits
		}
		cancel(late)
		if err := <-answer; !errors.Is(err, late) {
			t.Errorf("%s: %v; want the cause", name, err)
		}
	}
}

// TestWatch: only the file itself counts, and the folders that lead to it.
func TestWatch(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	w, err := watch(filepath.Join(dir, "control"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	for _, name := range []string{"members.json", "lock", "control"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.wait(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
	gone, err := watch(filepath.Join(dir, "sub", "control"))
	if err != nil {
		t.Fatal(err)
	}
	defer gone.close()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := gone.wait(t.Context(), time.Hour); err != nil {
		t.Errorf("%v; want that the end of the folder ends the wait", err)
	}
}

// TestWatchWhileMade: a folder that is made while the watch begins is not missed. Within a few of
// these rounds the two meet.
func TestWatchWhileMade(t *testing.T) {
	t.Parallel()
	parent := shortDir(t)
	late, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for round := range 100 {
		dir := filepath.Join(parent, strconv.Itoa(round))
		made := make(chan error, 1)
		go func() { made <- os.Mkdir(dir, 0o700) }()
		w, err := watch(filepath.Join(dir, "control"))
		if err := errors.Join(err, <-made); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "control"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		err = w.wait(late, time.Hour)
		w.close()
		if err != nil {
			t.Fatalf("round %d: neither the folder nor the file ended the wait: %v", round, err)
		}
	}
}
