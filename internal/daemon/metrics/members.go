package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"node-partition.io/node-partition/internal/partition"
)

// Members has the memory of a partition's members that the partition's cgroup does not show.
// Amounts are in bytes.
type Members struct {
	// RequestBytes is the sum of their memory requests.
	RequestBytes uint64
	// WaitingBytes is charged outside of the partition, and comes into it with the next boot at the
	// latest: the usage of members that wait for their next start, as eviction counts it, and what
	// live moves have left.
	WaitingBytes uint64
	// RecommendedBytes is the memoryLimit that recommend gives for what was used in the time Measured;
	// 0 if that is too short for one.
	RecommendedBytes uint64
	Measured         time.Duration
}

// membersCollector collects what a memoryLimit has to have room for beside the usage of the
// partition, and the one that is recommended.
type membersCollector struct {
	described
	partitions                              *series
	of                                      func(partition.Name) (Members, bool)
	request, waiting, recommended, measured *prometheus.Desc
}

// FollowMembers adds the metrics of the partitions' members, which of returns; false means that
// they are not known. FollowMembers is called once, before the first scrape.
func (m *Metrics) FollowMembers(of func(partition.Name) (Members, bool)) {
	c := &membersCollector{partitions: &m.partitions, of: of}
	c.request = c.desc(prefix+"members_memory_request_bytes",
		"Sum of the memory requests of the members of a partition, wherever they are.", "partition")
	c.waiting = c.desc(prefix+"memory_waiting_bytes",
		"Memory of members that is charged outside of their partition and comes into it with the next boot at the latest: "+
			"usage without page cache of those that wait for their next start, and what live moves left.", "partition")
	c.recommended = c.desc(prefix+"memory_recommended_bytes",
		"The memoryLimit that partition-monitor recommend gives for what the partition has used.", "partition")
	c.measured = c.desc(prefix+"memory_measured_seconds",
		"The time by which memory_recommended_bytes is computed.", "partition")
	m.registry.MustRegister(c)
}

// Collect implements prometheus.Collector.
func (c *membersCollector) Collect(to chan<- prometheus.Metric) {
	for name := range c.partitions.all() {
		members, known := c.of(name)
		if !known {
			continue
		}
		send(to, c.request, prometheus.GaugeValue, float64(members.RequestBytes), string(name))
		send(to, c.waiting, prometheus.GaugeValue, float64(members.WaitingBytes), string(name))
		if members.RecommendedBytes > 0 {
			send(to, c.recommended, prometheus.GaugeValue, float64(members.RecommendedBytes), string(name))
			send(to, c.measured, prometheus.GaugeValue, members.Measured.Seconds(), string(name))
		}
	}
}
