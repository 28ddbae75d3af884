package daemon

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/systemd"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/podmove/nri"
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

// idleReconciler returns a reconciler that is not run. Without a pass it is alive all the same.
func idleReconciler(t *testing.T) *podmove.Reconciler {
	t.Helper()
	return podmove.New(podmove.Options{
		Gatherer: &podmove.Gatherer{Cgroups: cgroups.FS(t.TempDir()), Runtime: &node.Runtime{}, Kubelet: &kubelet.Watcher{}},
		Units:    systemd.New(systemd.Options{}), Placer: &nri.Plugin{}, Events: &placementEvents{},
		NRI:   func() podmove.NRIState { return podmove.Working },
		Table: &podmove.Table{}, Signals: podmove.NewSignals(), Tick: time.Hour,
	})
}

// TestAliveEviction: the watchdog and the health check notice that eviction hangs, also while
// placement goes on.
func TestAliveEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		evictor, err := evict.New(evict.Options{
			Partition: partition.System,
			Cgroups:   cgroups.FS(t.TempDir()),
			Inventory: evict.Inventory{
				Pods: func() []evict.Pod { return nil }, Known: func() bool { return true }, Refresh: func() {},
				Scopes: func(string) (map[string]string, error) { return nil, nil },
				Rest:   func(string) []evict.Container { return nil },
				Spare:  func() (evict.Spare, error) { return evict.Spare{}, nil },
			},
			Actions: evict.Actions{
				Kill: func(string, bool) error { return nil }, Runtime: &node.Runtime{}, Mark: func(map[string]bool) {},
				API: &hangingAPI{ctx: ctx}, LowerLimit: func(context.Context) error { return nil }, Reclaim: func(uint64) {},
			},
			Store:  evict.Store(t.TempDir() + "/evictions.json"),
			Events: evictionEvents{evictionJournal: newEvictionJournal(slog.New(slog.DiscardHandler), partition.System), metrics: &noted{}},
		})
		if err != nil {
			t.Fatal(err)
		}
		m := &monitor{}
		m.partitions.add(&followedPartition{name: partition.System, evictor: evictor})
		m.reconciler = idleReconciler(t)
		ended := make(chan error, 1)
		go func() { ended <- evictor.Run(ctx) }()
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
