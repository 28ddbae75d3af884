package podmove

import (
	"context"
	"fmt"
	"time"
)

// Options holds the parts of a Reconciler. All fields but RaisedFile, CPUFile and Recover are
// needed.
type Options struct {
	// Gatherer reads the node. Its Announced and Proc may be missing.
	Gatherer *Gatherer
	Units    Units
	Mover    Mover
	Placer   Placer
	Events   Events
	// NRI returns the state of creation-time placement.
	NRI func() NRIState
	// Table is shared with eviction. A pod that is being evicted counts as terminating before the
	// kubelet reports it.
	Table *Table
	// Signals has the requests of the other parts.
	Signals *Signals
	// Tick is the longest time between two reconciles.
	Tick time.Duration
	// RaisedFile keeps the protected memory that kubepods.slice has for the floors of partitions,
	// until the next boot. Empty for no file: a restart then forgets it.
	RaisedFile string
	// CPUFile keeps what is known of the CPU time of members by annotation, until the next boot. Empty
	// for no file: a restart then forgets it.
	CPUFile string
	// Recover finishes what an earlier process has begun, before the first pass. Announced pods do not
	// wait for it. It logs its errors.
	Recover func(context.Context)
}

// recover calls Recover, if there is one.
func (o *Options) recover(ctx context.Context) {
	if o.Recover != nil {
		o.Recover(ctx)
	}
}

// check returns an error if a field is missing.
func (o *Options) check() error {
	g := o.Gatherer
	if g == nil {
		g = &Gatherer{}
	}
	for _, field := range []struct {
		name    string
		missing bool
	}{
		{"Gatherer", o.Gatherer == nil},
		{"Gatherer.Cgroups", g.Cgroups == ""},
		{"Gatherer.Runtime", g.Runtime == nil},
		{"Gatherer.Kubelet", g.Kubelet == nil},
		{"Units", o.Units == nil},
		{"Mover", o.Mover == nil},
		{"Placer", o.Placer == nil},
		{"Events", o.Events == nil},
		{"NRI", o.NRI == nil},
		{"Table", o.Table == nil},
		{"Signals", o.Signals == nil},
		{"Tick", o.Tick <= 0},
	} {
		if field.missing {
			return fmt.Errorf("podmove.Options: %s is missing", field.name)
		}
	}
	return nil
}
