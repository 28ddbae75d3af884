package daemon

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nodepartition/internal/cgroupfs"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/podmove"
)

// hangingAPI blocks each poll from the second one on until its context ends.
type hangingAPI struct {
	evict.API
	ctx   context.Context
	polls int
}

func (a *hangingAPI) Available() bool {
	if a.polls++; a.polls > 1 {
		<-a.ctx.Done()
	}
	return false
}

// TestAliveEviction: the watchdog and the health check notice that eviction hangs, also while
// placement goes on.
func TestAliveEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m := &monitor{
			reconciler: podmove.NewReconciler(),
			evictor: evict.New(evict.Options{
				Cgroups: cgroupfs.FS(t.TempDir()), Slice: "kubepods.slice", API: &hangingAPI{ctx: ctx},
				Mark:  func(map[string]bool) {},
				Store: evict.Store(t.TempDir() + "/evictions.json"),
			}),
		}
		m.reconciler.Tick = time.Hour // without a pass it is alive all the same
		ended := make(chan error, 1)
		go func() { ended <- m.evictor.Run(ctx) }()
		<-time.After(20 * time.Second)
		if err := m.alive(); err != nil {
			t.Errorf("after 20 s: %v", err)
		}
		<-time.After(20 * time.Second)
		if err := m.alive(); err == nil || !strings.Contains(err.Error(), "eviction: ") {
			t.Errorf("after 40 s without a poll: %v; want an error of eviction", err)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
}
