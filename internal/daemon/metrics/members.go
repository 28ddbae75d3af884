package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"nodepartition/internal/unitname"
)

// Members has the memory of a partition's members that the partition's cgroup does not show.
// Amounts are in bytes.
type Members struct {
	// RequestBytes is the sum of their memory requests.
	RequestBytes uint64
	// WaitingBytes is charged outside of the partition, and comes into it with the next boot at the
	// latest: the usage of members that wait for their next start, as eviction counts it, and what
	// live moves have left. WaitingWorkingSetBytes is the same as the kubelet counts.
	WaitingBytes, WaitingWorkingSetBytes uint64
}

// membersCollector collects what a memoryLimit has to have room for beside the usage of the
// partition, and what the threshold of the node depends on.
type membersCollector struct {
	partitions                 *series
	of                         func(unitname.PartitionName) (Members, bool)
	least                      func() uint64
	request, waiting, set, low *prometheus.Desc
}

// FollowMembers adds the metrics of the partitions' members, which of returns; false means that
// they are not known. least returns the least threshold in bytes for the CPUs of the node, 0 if it
// is not known. FollowMembers is called once, before the first scrape.
func (m *Metrics) FollowMembers(of func(unitname.PartitionName) (Members, bool), least func() uint64) {
	partition := []string{"partition"}
	m.registry.MustRegister(&membersCollector{
		partitions: &m.partitions, of: of, least: least,
		request: prometheus.NewDesc(prefix+"members_memory_request_bytes",
			"Sum of the memory requests of the members of a partition, wherever they are.", partition, nil),
		waiting: prometheus.NewDesc(
			prefix+"memory_waiting_bytes",
			"Memory of members that is charged outside of their partition and comes into it with the next boot at the latest: "+
				"usage without page cache of those that wait for their next start, and what live moves left.",
			partition,
			nil,
		),
		set: prometheus.NewDesc(prefix+"memory_waiting_working_set_bytes",
			"The same with the page cache in use.", partition, nil),
		low: prometheus.NewDesc(prefix+"least_threshold_bytes",
			"Lower bound of the default evictionHard for the CPUs of the node.", nil, nil),
	})
}

// Describe implements prometheus.Collector.
func (c *membersCollector) Describe(to chan<- *prometheus.Desc) {
	to <- c.request
	to <- c.waiting
	to <- c.set
	to <- c.low
}

// Collect implements prometheus.Collector.
func (c *membersCollector) Collect(to chan<- prometheus.Metric) {
	if least := c.least(); least > 0 {
		send(to, c.low, prometheus.GaugeValue, float64(least))
	}
	for _, p := range c.partitions.all() {
		members, known := c.of(p.name)
		if !known {
			continue
		}
		send(to, c.request, prometheus.GaugeValue, float64(members.RequestBytes), string(p.name))
		send(to, c.waiting, prometheus.GaugeValue, float64(members.WaitingBytes), string(p.name))
		send(to, c.set, prometheus.GaugeValue, float64(members.WaitingWorkingSetBytes), string(p.name))
	}
}
