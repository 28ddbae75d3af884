package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"nodepartition/internal/unitname"
	"nodepartition/pkg/podmove"
)

// partitions lists the values of the label partition.
var partitions = [...]unitname.Partition{unitname.System, unitname.Default}

// reportCollector collects the results of the last pass. It has no metrics before the end of the
// first: zero pods would be wrong.
type reportCollector struct {
	reports                                                     Reports
	podCount, pods, misplaced, outside, outlived, lastReconcile *prometheus.Desc
}

func newReportCollector(reports Reports) *reportCollector {
	return &reportCollector{
		reports: reports,
		podCount: prometheus.NewDesc("kubelet_partition_pod_count",
			"Pods that run containers in a partition (KEP-5894).", []string{"partition"}, nil),
		// The KEP has the name above, and the implementation in the kubelet (kubernetes#142200) this one.
		pods: prometheus.NewDesc("kubelet_partition_pods",
			"Pods that run containers in a partition (kubernetes#142200).", []string{"partition"}, nil),
		misplaced: prometheus.NewDesc(
			prefix+"misplaced_pods",
			"Pods that are not in the partition that they belong to, by the reason why they are not moved yet.",
			[]string{"reason"},
			nil,
		),
		outside: prometheus.NewDesc(
			prefix+"memory_outside_bytes",
			"Memory of pods of the system partition that is charged outside of it, because their processes were moved live.",
			nil,
			nil,
		),
		outlived: prometheus.NewDesc(prefix+"outlived_scopes",
			"Scopes in the partition with processes that have outlived their pod.", nil, nil),
		lastReconcile: prometheus.NewDesc(prefix+"last_reconcile_timestamp_seconds",
			"End of the last pass over all pods, in seconds since 1970.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *reportCollector) Describe(to chan<- *prometheus.Desc) {
	to <- c.podCount
	to <- c.pods
	to <- c.misplaced
	to <- c.outside
	to <- c.outlived
	to <- c.lastReconcile
}

// Collect implements prometheus.Collector.
func (c *reportCollector) Collect(to chan<- prometheus.Metric) {
	report := c.reports.Report()
	if report.Time.IsZero() {
		return
	}
	pods := map[unitname.Partition]int{}
	misplaced := map[podmove.Reason]int{}
	for _, reason := range podmove.Reasons() {
		misplaced[reason] = 0
	}
	var outside uint64
	for _, pod := range report.Pods {
		if pod.Containers > 0 {
			pods[pod.Partition()]++
		}
		if pod.Reason != "" {
			misplaced[pod.Reason]++
		}
		outside += pod.OutsideBytes
	}
	for _, partition := range partitions {
		send(to, c.podCount, prometheus.GaugeValue, float64(pods[partition]), string(partition))
		send(to, c.pods, prometheus.GaugeValue, float64(pods[partition]), string(partition))
	}
	for reason, n := range misplaced {
		send(to, c.misplaced, prometheus.GaugeValue, float64(n), string(reason))
	}
	send(to, c.outside, prometheus.GaugeValue, float64(outside))
	send(to, c.outlived, prometheus.GaugeValue, float64(len(report.Outlived)))
	send(to, c.lastReconcile, prometheus.GaugeValue, float64(report.Time.UnixMilli())/1000)
}
