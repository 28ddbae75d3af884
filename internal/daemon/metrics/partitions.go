package metrics

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"node-partition.io/node-partition/internal/partition"
)

// series has the partitions that have series, but not Default, which is the rest. They come and go
// with the configuration.
type series struct {
	mu sync.Mutex
	// polls is of their evictors.
	polls map[partition.Name]Polls
}

// all returns the partitions.
func (s *series) all() map[partition.Name]Polls {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.polls)
}

// Add adds the series of a partition. polls returns what the last poll of its memory found. Add
// creates all series whose labels are known already, so that rate() includes the first event.
func (m *Metrics) Add(name partition.Name, polls Polls) {
	m.events.of(name)
	m.evictions.of(name)
	m.partitions.mu.Lock()
	defer m.partitions.mu.Unlock()
	m.partitions.polls[name] = polls
}

// Remove removes the series of a partition that the node has no more.
func (m *Metrics) Remove(name partition.Name) {
	m.partitions.mu.Lock()
	delete(m.partitions.polls, name)
	m.partitions.mu.Unlock()
	label := prometheus.Labels{"partition": string(name)}
	m.events.placements.DeletePartialMatch(label)
	m.evictions.remove(label)
}
