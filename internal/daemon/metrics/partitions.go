package metrics

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"node-partition.io/node-partition/internal/partition"
)

// series lists the partitions that have series, but not Default, which is the rest. They come and
// go with the configuration.
type series struct {
	mu   sync.Mutex
	list []ofPartition // replaced as a whole
}

// ofPartition is a partition that has series.
type ofPartition struct {
	name partition.Name
	// slices lists the slices of the partition, outermost first.
	slices []string
	// polls is nil until the evictor of the partition exists.
	polls Polls
}

// all returns the partitions. The result must not be changed.
func (s *series) all() []ofPartition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list
}

// set adds a partition, or replaces the one of that name.
func (s *series) set(p ofPartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Clone(s.list)
	if i := slices.IndexFunc(list, func(q ofPartition) bool { return q.name == p.name }); i >= 0 {
		list[i] = p
	} else {
		list = append(list, p)
	}
	s.list = list
}

// remove removes a partition.
func (s *series) remove(name partition.Name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(slices.Clone(s.list), func(p ofPartition) bool { return p.name == name })
}

// Add adds the series of a partition. polls returns what the last poll of its memory found; nil
// leaves these series out. Add creates all series whose labels are known already, so that rate()
// includes the first event.
func (m *Metrics) Add(name partition.Name, polls Polls) {
	m.events.of(name)
	m.evictions.of(name)
	m.partitions.set(ofPartition{name, name.Slices(), polls})
}

// Remove removes the series of a partition that the node has no more.
func (m *Metrics) Remove(name partition.Name) {
	m.partitions.remove(name)
	label := prometheus.Labels{"partition": string(name)}
	m.events.placements.DeletePartialMatch(label)
	m.evictions.remove(label)
}
