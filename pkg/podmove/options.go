package podmove

import (
	"context"
	"time"

	"node-partition.io/node-partition/pkg/podmove/livemove"
)

// Options holds the parts of a Reconciler. All fields but RecordFile are needed.
type Options struct {
	// Gatherer reads the node. Its Announced and Proc may be missing.
	Gatherer *Gatherer
	Units    Units
	// Stop stops a container with its grace period, and Live moves its processes.
	Stop   func(ctx context.Context, id string, grace time.Duration) error
	Live   func(ctx context.Context, r livemove.Request) error
	Placer Placer
	Events Events
	// NRI returns the state of creation-time placement.
	NRI func() NRIState
	// Table is shared with eviction. A pod that is being evicted counts as terminating before the
	// kubelet reports it.
	Table *Table
	// Signals has the requests of the other parts.
	Signals *Signals
	// Tick is the time between two reconciles without an event, or five minutes if that is more and
	// nothing happens.
	Tick time.Duration
	// RecordFile keeps what passes have set on kubepods.slice and on the scopes of containers, until
	// the next boot. Empty for no file: a restart then forgets it.
	RecordFile string
	// Recover finishes what an earlier process has begun, before the first reconcile. Announced
	// pods do not wait for it. It logs its errors.
	Recover func(context.Context)
}
