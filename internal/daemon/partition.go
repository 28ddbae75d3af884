package daemon

import (
	"context"

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
	// stop ends the parts, and waits for that; nil before they run.
	stop func()
}

// start runs the parts of the partition until stop, or until ctx ends.
func (p *followedPartition) start(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.evictor.Run(ctx) // it ends with its context
	}()
	p.stop = func() {
		cancel()
		<-ended
	}
}

// end ends the parts, if they run, and waits for that.
func (p *followedPartition) end() {
	//guard: the evictor of a partition that is gone ends
	if p.stop != nil {
		p.stop()
	}
}
