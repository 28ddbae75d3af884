package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// Options holds the sources of the metrics.
type Options struct {
	// Version of the program.
	Version string
	// Cgroups is the root of the cgroups; needed.
	Cgroups cgroups.FS
	// PerPod adds series for each pod of the partitions. They remain in Prometheus after the pod is
	// gone.
	PerPod bool
	// ReadFailed, if it is not nil, is called for each cgroup that a scrape could not read, from any
	// goroutine. Such cgroups are counted in any case.
	ReadFailed func(error)
	// LogDropped returns the number of log records that were dropped; nil if none ever is.
	LogDropped func() uint64
}

// Polls returns the report of the last poll of a partition's memory.
type Polls interface {
	Report() evict.Report
}

// Reports returns the report of the last reconcile; its Time is zero before the end of the first.
type Reports interface {
	Report() report.Report
}

// Metrics is a prometheus.Gatherer with its own registry. Its other methods count events.
type Metrics struct {
	registry   *prometheus.Registry
	options    Options
	read       reader
	partitions series
	events     events
	evictions  evictions
	sources    *sources
	cluster    clusterCounts
	listens    prometheus.Counter

	configuration *configurationCollector
}

// New returns the metrics of what is counted. It has no partition before the first Add.
func New(o Options) *Metrics {
	m := &Metrics{
		registry:  prometheus.NewRegistry(),
		options:   o,
		events:    newEvents(),
		evictions: newEvictions(),
		sources:   newSources(),

		partitions: series{polls: map[partition.Name]Polls{}},

		cluster: newCluster(),
		listens: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "listen_failures_total",
			Help: "Failures to serve metrics and health: another process had the port, the node did not have the address, " +
				"the web configuration file was not valid, or serving ended.",
		}),
	}
	failures := prometheus.NewCounter(prometheus.CounterOpts{
		Name: prefix + "cgroup_read_failures_total",
		Help: "Cgroups that a scrape failed to read; their series are missing. Removed cgroups are not counted.",
	})
	m.configuration = newConfigurationCollector(&m.partitions)
	m.read = reader{cgroups: o.Cgroups, failed: func(err error) {
		failures.Inc()
		if o.ReadFailed != nil {
			o.ReadFailed(err)
		}
	}}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: prefix + "info", Help: "The program that runs; the value is 1.",
		ConstLabels: prometheus.Labels{"version": o.Version, "goversion": runtime.Version()},
	})
	info.Set(1)
	m.registry.MustRegister(
		info,
		failures,
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: prefix + "log_records_dropped_total",
			Help: "Records of the log that were dropped, because journald did not read in time.",
		}, func() float64 {
			if o.LogDropped == nil {
				return 0
			}
			return float64(o.LogDropped())
		}),
		m.listens,
		m.configuration,
		newSliceCollector(m.read, &m.partitions),
		newMarginCollector(&m.partitions),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.events.register(m.registry)
	m.evictions.register(m.registry)
	m.sources.register(m.registry)
	m.cluster.register(m.registry)
	return m
}

// Follow adds the metrics of what passes report. It is called once, before the first scrape.
func (m *Metrics) Follow(passes Reports) {
	m.registry.MustRegister(newReportCollector(passes, &m.partitions), newWorkloadCollector(passes, m.configuration))
	if m.options.PerPod {
		m.registry.MustRegister(newPodCollector(m.read, passes, &m.partitions))
	}
}

// ListenFailed counts an attempt to serve these metrics.
func (m *Metrics) ListenFailed() { m.listens.Inc() }

// Gather implements prometheus.Gatherer.
func (m *Metrics) Gather() ([]*dto.MetricFamily, error) { return m.registry.Gather() }

// prefix is the prefix of all metrics that the KEP does not define.
const prefix = "nodepartition_"

// described holds the descriptions of what a collector collects.
type described []*prometheus.Desc

// desc describes a metric.
func (d *described) desc(name, help string, labels ...string) *prometheus.Desc {
	desc := prometheus.NewDesc(name, help, labels, nil)
	*d = append(*d, desc)
	return desc
}

// Describe implements prometheus.Collector.
func (d *described) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range *d {
		to <- desc
	}
}

// send sends a value to a scrape. A label that is not UTF-8 adds an error to the scrape, and the
// other series remain.
func send(
	to chan<- prometheus.Metric,
	desc *prometheus.Desc,
	kind prometheus.ValueType,
	value float64,
	labels ...string,
) {
	metric, err := prometheus.NewConstMetric(desc, kind, value, labels...)
	if err != nil {
		metric = prometheus.NewInvalidMetric(desc, err)
	}
	to <- metric
}
