package systemd

import (
	"context"
	"sync"
)

// notices queues calls of Options' functions. Noting something never blocks. Several notes of one
// kind before a delivery are delivered once: a thousand units that come and go are one wake.
type notices struct {
	mu      sync.Mutex
	pending pending
	some    chan struct{} // has one element if a notice is pending
}

type pending struct {
	wake, reloaded bool
	connected      *bool
}

func (p *pending) missed() { p.wake, p.reloaded = true, true }

func newNotices() notices { return notices{some: make(chan struct{}, 1)} }

func (n *notices) note(change func(*pending)) {
	n.mu.Lock()
	change(&n.pending)
	n.mu.Unlock()
	select {
	case n.some <- struct{}{}:
	default:
	}
}

func (n *notices) wake()     { n.note(func(p *pending) { p.wake = true }) }
func (n *notices) reloaded() { n.note(func(p *pending) { p.reloaded = true }) }

// resynced notes that signals may have been missed.
func (n *notices) resynced() { n.note((*pending).missed) }

func (n *notices) connected(up bool) {
	n.note(func(p *pending) {
		p.connected = &up
		if up {
			p.missed()
		}
	})
}

func (n *notices) deliver(ctx context.Context, o Options) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.some:
		}
		n.mu.Lock()
		p := n.pending
		n.pending = pending{}
		n.mu.Unlock()
		if p.connected != nil {
			o.OnConnected(*p.connected)
		}
		if p.reloaded {
			o.OnReloaded()
		}
		if p.wake {
			o.Wake()
		}
	}
}
