package daemon

import (
	"context"
	"time"

	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/livemove"
)

// mover moves single containers for passes.
type mover struct {
	runtime *node.Runtime
	live    livemove.Mover
}

// Restart stops a container, which the kubelet starts again.
func (m mover) Restart(ctx context.Context, id string, grace time.Duration) error {
	return m.runtime.Stop(ctx, id, grace)
}

func (m mover) Live(ctx context.Context, from, scope, to, newScope, description string) error {
	_, err := m.live.Move(ctx, livemove.Request{
		Scope:       scope,
		Cgroup:      partition.CgroupPath(from) + "/" + scope,
		TargetSlice: to,
		NewName:     newScope,
		Description: description,
	})
	return err
}
