package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"node-partition.io/node-partition/tests/fakenode"
	"node-partition.io/node-partition/tests/testkit"
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

// TestComplaints: an error that lasts is logged once, and more different ones than are remembered
// do not make all of them new.
func TestComplaints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lines testkit.Buffer
		m := &monitor{log: lines.Logger()}
		complain := m.complaints("a scrape failed")
		logged := func(scrapes int) int {
			before := strings.Count(lines.String(), "\n")
			for range scrapes {
				for i := range mostComplaints + 50 {
					complain(fmt.Errorf("pod %d", i))
				}
			}
			return strings.Count(lines.String(), "\n") - before
		}
		if n := logged(1); n != mostComplaints {
			t.Errorf("%d lines; want %d", n, mostComplaints)
		}
		if n := logged(10); n != 0 {
			t.Errorf("%d lines for the same errors", n)
		}
		<-time.After(time.Hour)
		if n := logged(10); n != mostComplaints {
			t.Errorf("%d lines an hour later; want %d", n, mostComplaints)
		}
	})
}
