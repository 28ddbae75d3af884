package evict

import (
	"context"
	"errors"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/thresholds"
)

// TestManagerRun: a configuration wakes the manager, which evicts and ends.
func TestManagerRun(t *testing.T) {
	n := busyNode(t, newDisk(t))
	defer n.cancel()
	n.noAPI = true
	evicted := make(chan string, 1)
	// The next poll is a second away.
	m := n.manager(Settings{Thresholds: thresholds.Thresholds{Limit: 1000 * mi}, Off: true})
	polled := make(chan struct{}, 1)
	pods := m.Pods
	m.Pods = func() []Pod {
		select {
		case polled <- struct{}{}:
		default:
		}
		return pods()
	}
	m.Events = &eventsOf{(*nodeEvents)(n), evicted}
	ended := make(chan error, 1)
	go func() { ended <- m.Run(n.ctx) }()
	m.SetConfig(hardOnly)
	<-polled
	if name := <-evicted; name != "greedy" {
		t.Errorf("evicted %s", name)
	}
	n.expect("kill greedy.c1", "kill greedy.c2")
	n.cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended by %v", err)
	}
	if m.watch.meter != nil {
		t.Error("files are left open")
	}
	m.SetConfig(hardOnly) // late
}

// eventsOf sends the names of evicted pods.
type eventsOf struct {
	Events
	evicted chan<- string
}

func (v *eventsOf) Evicted(e Eviction, took time.Duration) {
	v.Events.Evicted(e, took)
	v.evicted <- e.Name
}
