package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// reportCollector collects the results of the last reconcile. It has no metrics before the end of
// the first: zero pods would be wrong.
type reportCollector struct {
	described
	reports                                                     Reports
	partitions                                                  *series
	podCount, pods, misplaced, outside, outlived, lastReconcile *prometheus.Desc
}

func newReportCollector(reports Reports, partitions *series) *reportCollector {
	c := &reportCollector{reports: reports, partitions: partitions}
	c.podCount = c.desc("kubelet_partition_pod_count", "Pods that run containers in a partition (KEP-5894).", "partition")
	// The KEP has the name above, and the implementation in the kubelet (kubernetes#142200) this one.
	c.pods = c.desc("kubelet_partition_pods", "Pods that run containers in a partition (kubernetes#142200).", "partition")
	c.misplaced = c.desc(prefix+"misplaced_pods",
		"Pods of a partition that are not in it, and pods in it that do not belong there, by the reason why they are not moved yet.",
		"partition", "reason")
	c.outside = c.desc(prefix+"memory_outside_bytes",
		"Memory of pods of a partition that is charged outside of it, because their processes were moved live.", "partition")
	c.outlived = c.desc(prefix+"outlived_scopes",
		"Scopes in a partition with processes that have outlived their pod.", "partition")
	c.lastReconcile = c.desc(prefix+"last_reconcile_timestamp_seconds",
		"End of the last reconcile of all pods, in seconds since 1970.")
	return c
}

// Collect implements prometheus.Collector.
func (c *reportCollector) Collect(to chan<- prometheus.Metric) {
	found := c.reports.Report()
	if found.Time.IsZero() {
		return
	}
	send(to, c.lastReconcile, prometheus.GaugeValue, float64(found.Time.UnixMilli())/1000)
	counts := count(found)
	for name := range c.partitions.all() {
		c.running(to, name, counts)
		for _, reason := range report.Reasons() {
			n := counts.misplaced[placeAndReason{name, reason}]
			send(to, c.misplaced, prometheus.GaugeValue, float64(n), string(name), string(reason))
		}
		send(to, c.outside, prometheus.GaugeValue, float64(counts.outside[name]), string(name))
		send(to, c.outlived, prometheus.GaugeValue, float64(counts.outlived[name]), string(name))
	}
	c.running(to, partition.Default, counts)
}

func (c *reportCollector) running(to chan<- prometheus.Metric, name partition.Name, counts counts) {
	send(to, c.podCount, prometheus.GaugeValue, float64(counts.pods[name]), string(name))
	send(to, c.pods, prometheus.GaugeValue, float64(counts.pods[name]), string(name))
}

// counts holds the sums of a report by partition.
type counts struct {
	pods, outlived map[partition.Name]int
	outside        map[partition.Name]uint64
	misplaced      map[placeAndReason]int
}

type placeAndReason struct {
	partition partition.Name
	reason    report.Reason
}

func count(found report.Report) counts {
	c := counts{
		pods:      map[partition.Name]int{},
		outlived:  map[partition.Name]int{},
		outside:   map[partition.Name]uint64{},
		misplaced: map[placeAndReason]int{},
	}
	for _, pod := range found.Pods {
		if pod.Containers > 0 {
			c.pods[pod.Partition()]++
		}
		if pod.Reason != "" {
			c.misplaced[placeAndReason{concerned(pod), pod.Reason}]++
		}
		if pod.OutsideBytes > 0 {
			c.outside[concerned(pod)] += pod.OutsideBytes
		}
	}
	for _, scope := range found.Outlived {
		if partition, _, _, ok := partition.ParsePodSlice(scope.Slice); ok {
			c.outlived[partition]++
		}
	}
	return c
}

// concerned returns the partition that a pod belongs to. If a pod belongs to none, it returns the
// partition that the pod is in.
func concerned(pod report.Pod) partition.Name {
	if pod.Member {
		return pod.Belongs
	}
	return pod.Partition()
}
