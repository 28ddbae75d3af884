package podmove

import (
	"sync/atomic"

	"node-partition.io/node-partition/internal/partition"
)

// fakePlacer is a Placer whose runtime connects and asks nothing.
type fakePlacer struct {
	connected atomic.Int32
	// announced is the UID of a pod whose sandbox has begun since the snapshot.
	announced atomic.Value
}

func (p *fakePlacer) SetRules(partition.Rules)                       { /* unused */ }
func (p *fakePlacer) Connections() int                               { return int(p.connected.Load()) }
func (p *fakePlacer) Answers(func(id string) bool) map[string]Answer { return nil }

// IsAnnounced has the UID as the name of a slice holds it, or as the kubelet does.
func (p *fakePlacer) IsAnnounced(uid string) bool {
	announced, ok := p.announced.Load().(string)
	return ok && partition.EscapeUID(announced) == partition.EscapeUID(uid)
}
