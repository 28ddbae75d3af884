package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"nodepartition/internal/unitname"
)

// podCollector collects the metrics of each pod of the system partition. The kubelet's own metrics
// of these pods are of no use: it looks up the cgroup by a name that the slices of both partitions
// share, and reports sometimes the one, sometimes the other.
type podCollector struct {
	reader
	reports     Reports
	memory, cpu *prometheus.Desc
}

func newPodCollector(r reader, reports Reports) *podCollector {
	labels := []string{"namespace", "pod", "uid"}
	return &podCollector{
		reader: r, reports: reports,
		memory: prometheus.NewDesc(prefix+"pod_memory_working_set_bytes",
			"Memory that a pod uses in the system partition, without inactive page cache.", labels, nil),
		cpu: prometheus.NewDesc(prefix+"pod_cpu_seconds_total",
			"CPU time that a pod used in the system partition.", labels, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *podCollector) Describe(to chan<- *prometheus.Desc) {
	to <- c.memory
	to <- c.cpu
}

// Collect implements prometheus.Collector.
func (c *podCollector) Collect(to chan<- prometheus.Metric) {
	for _, pod := range c.reports.Report().Pods {
		if pod.Partition() != unitname.System {
			continue
		}
		usage, err := c.usage(pod.Slice)
		if err != nil {
			continue
		}
		labels := prometheus.MakeLabelPairs(c.cpu, []string{pod.Namespace, pod.Name, pod.UID})
		if usage.HasMemory {
			to <- podMetric{c.memory, &dto.Metric{Label: labels, Gauge: &dto.Gauge{Value: new(float64(usage.WorkingSet()))}}}
		}
		to <- podMetric{c.cpu, &dto.Metric{Label: labels, Counter: &dto.Counter{Value: new(usage.CPUTime.Seconds())}}}
	}
}

// podMetric is a prometheus.Metric that shares its labels with the other metrics of the pod.
type podMetric struct {
	desc  *prometheus.Desc
	value *dto.Metric
}

func (m podMetric) Desc() *prometheus.Desc { return m.desc }

func (m podMetric) Write(to *dto.Metric) error {
	to.Label, to.Gauge, to.Counter = m.value.Label, m.value.Gauge, m.value.Counter
	return nil
}
