package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"node-partition.io/node-partition/internal/partition"
)

// podCollector collects the metrics of each pod in a partition. The kubelet's own metrics of
// these pods are of no use: it looks up the cgroup by a name that the slices of both partitions
// share, and reports sometimes the one, sometimes the other.
type podCollector struct {
	described
	reader
	reports     Reports
	partitions  *series
	memory, cpu *prometheus.Desc
}

func newPodCollector(r reader, reports Reports, partitions *series) *podCollector {
	labels := []string{"namespace", "partition", "pod", "uid"}
	c := &podCollector{reader: r, reports: reports, partitions: partitions}
	c.memory = c.desc(prefix+"pod_memory_working_set_bytes",
		"Memory that a pod uses in its partition, without inactive page cache.", labels...)
	c.cpu = c.desc(prefix+"pod_cpu_seconds_total", "CPU time that a pod used in its partition.", labels...)
	return c
}

// Collect implements prometheus.Collector.
func (c *podCollector) Collect(to chan<- prometheus.Metric) {
	ours := c.partitions.all()
	for _, pod := range c.reports.Report().Pods {
		if _, is := ours[pod.Partition()]; !is {
			continue
		}
		usage, err := c.cgroups.Usage(partition.CgroupPath(pod.Slice))
		if c.note(err) != nil {
			continue
		}
		labels := []string{pod.Namespace, string(pod.Partition()), pod.Name, pod.UID}
		if usage.HasMemory {
			send(to, c.memory, prometheus.GaugeValue, float64(usage.WorkingSet()), labels...)
		}
		send(to, c.cpu, prometheus.CounterValue, usage.CPUTime.Seconds(), labels...)
	}
}
