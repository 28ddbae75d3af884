package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestOverdue: systemd is reloaded for a trial that is over, once a minute, for as long as a
// reconcile sees the trial. A reconcile never waits for that.
func TestOverdue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var journal bytes.Buffer
		var reloads []time.Duration
		begin := time.Now()
		o := overdue{seen: make(chan struct{}), log: slog.New(slog.NewTextHandler(&journal, nil)), reload: func(context.Context) error {
			reloads = append(reloads, time.Since(begin))
			return errors.New("busy")
		}}
		o.note() // before anything listens
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- o.run(ctx) }()
		for range 13 { // passes
			synctest.Wait()
			o.note()
			<-time.After(10 * time.Second)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if len(reloads) != 3 || reloads[1] != time.Minute || reloads[2] != 2*time.Minute {
			t.Errorf("reloads after %v; want three, a minute apart", reloads)
		}
		if got := strings.Count(journal.String(), "it is tried again\" error=busy"); got != 3 {
			t.Errorf("%d errors: %s", got, &journal)
		}
	})
}
