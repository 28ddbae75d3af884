package daemon

import (
	"context"
	"sync"

	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
)

// followedPartition holds the parts that each partition of the node has. All of them exist when it
// does.
type followedPartition struct {
	name partition.Name
	// remembered holds what was known of its pods.
	remembered *node.PodMemory
	evictor    *evict.Manager
	// kills records the kernel's kills in it; nil if nothing does.
	kills *clusterEvents
	// end ends the parts; nil before they run.
	end   context.CancelFunc
	parts sync.WaitGroup
}

// start runs the parts of the partition until stop, or until ctx ends.
func (p *followedPartition) start(ctx context.Context) {
	ctx, p.end = context.WithCancel(ctx)
	if p.kills != nil {
		p.kills.kills.Since() // before the evictor's first reading
		p.parts.Go(func() { p.kills.attribute(ctx) })
	}
	p.parts.Go(func() { _ = p.evictor.Run(ctx) }) // it ends with its context
}

// stop ends the parts, and waits for that.
func (p *followedPartition) stop() {
	//guard: the evictor of a partition that is gone ends
	if p.end != nil {
		p.end()
	}
	p.parts.Wait()
}

// note remembers the pods that a reconcile has found in the partition.
func (p *followedPartition) note(s *shared) {
	known, _ := s.kubelet.Pods()
	p.remembered.Note(s.options.Node.Cgroups, s.table.Pods(), known)
}
