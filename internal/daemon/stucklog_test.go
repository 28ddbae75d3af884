package daemon

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"nodepartition/tests/fakenode"
)

// stuck is a journal that does not read.
type stuck struct {
	slog.Handler
	ctx context.Context
}

func (s stuck) Enabled(context.Context, slog.Level) bool  { return true }
func (s stuck) Handle(context.Context, slog.Record) error { <-s.ctx.Done(); return nil }
func (s stuck) WithAttrs([]slog.Attr) slog.Handler        { return s }

// TestRunStuckLog: a journal that does not read stops nothing: passes end, the memory is polled,
// metrics are served, and systemd is notified that the service is ready. Not parallel, because it
// sets the environment.
func TestRunStuckLog(t *testing.T) {
	m := newManager(t)
	n := &fakeNode{fakenode.Guarded(t), t}
	n.TellPods()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := Options{Options: n.Options(), Tick: time.Second, Log: slog.New(stuck{slog.DiscardHandler, t.Context()})}
	o.Eviction.Kubeconfig, o.Listen = "auto", freeAddress(t)
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	missing := []string{
		"nodepartition_last_reconcile_timestamp_seconds ", `nodepartition_memory_used_bytes{partition="system"} `,
		"nodepartition_log_records_dropped_total ",
	}
	ready := false
	for ctx.Err() == nil && (len(missing) > 0 || !ready) {
		ready = ready || slices.Contains(m.told(), "READY=1")
		text := scraped(ctx, o.Listen)
		missing = slices.DeleteFunc(missing, func(want string) bool { return strings.Contains(text, "\n"+want) })
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	if len(missing) > 0 || !ready {
		t.Errorf("ready: %t; the metrics lack %q", ready, missing)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}
