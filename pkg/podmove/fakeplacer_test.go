package podmove

import (
	"sync/atomic"

	"nodepartition/internal/cri"
)

// fakePlacer is a Placer whose runtime connects and asks nothing.
type fakePlacer struct{ connected atomic.Int32 }

func (p *fakePlacer) SetConfig(Config)                               { /* unused */ }
func (p *fakePlacer) Connections() int                               { return int(p.connected.Load()) }
func (p *fakePlacer) IsAnnounced(string) bool                        { return false }
func (p *fakePlacer) Answers(func(id string) bool) map[string]Answer { return nil }
func (p *fakePlacer) Announced(func(id string) bool) []cri.Sandbox   { return nil }
