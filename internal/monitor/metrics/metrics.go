// Package metrics has the Prometheus metrics of partition-monitor: its own work, counted as it
// happens, and the usage of the partition's cgroups, read at each scrape.
package metrics

import (
	"errors"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"

	"nodepartition/internal/cgroupfs"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/podmove"
)

// Options holds the sources of the metrics.
type Options struct {
	// Version of the program.
	Version string
	// Cgroups is the root of the cgroups; empty means cgroupfs.Mount.
	Cgroups cgroupfs.FS
	// Reports has the report of the last pass; needed.
	Reports Reports
	// Evictions returns the report of the last poll of the memory; needed.
	Evictions func() evict.Report
	// PerPod adds series for each pod of the partition. They remain in Prometheus after the pod is
	// gone.
	PerPod bool
	// ReadFailed, if it is not nil, is called for each cgroup that a scrape could not read, from any
	// goroutine. Such cgroups are counted in any case.
	ReadFailed func(error)
}

// Reports returns the report of the last pass; its Time is zero before the end of the first.
type Reports interface {
	Report() podmove.Report
}

// Metrics is a prometheus.Gatherer with its own registry. Its other methods count events.
type Metrics struct {
	registry  *prometheus.Registry
	pods      *podMetrics // nil without metrics of pods
	events    events
	evictions evictions
	sources   *sources
	cluster   cluster
	listens   prometheus.Counter

	configuration *configurationCollector
}

var (
	_ prometheus.Gatherer = (*Metrics)(nil)
)

// New creates all series whose labels are known already, so that rate() includes the first event.
func New(o Options) *Metrics {
	if o.Cgroups == "" {
		o.Cgroups = cgroupfs.Mount
	}
	m := &Metrics{
		registry:  prometheus.NewRegistry(),
		events:    newEvents(),
		evictions: newEvictions(),
		sources:   newSources(),

		configuration: newConfigurationCollector(),
		cluster:       newCluster(),
		listens: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "listen_failures_total",
			Help: "Failed attempts to serve metrics and health, because another process had the port or the node did not have the address.",
		}),
	}
	failures := prometheus.NewCounter(prometheus.CounterOpts{
		Name: prefix + "cgroup_read_failures_total",
		Help: "Cgroups that a scrape failed to read; their series are missing. Removed cgroups are not counted.",
	})
	read := reader{cgroups: o.Cgroups, failed: func(err error) {
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
		m.listens,
		m.configuration,
		newSliceCollector(read),
		newReportCollector(o.Reports),
		newMarginCollector(o.Evictions),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	if o.PerPod {
		m.pods = &podMetrics{read, o.Reports}
	}
	m.events.register(m.registry)
	m.evictions.register(m.registry)
	m.sources.register(m.registry)
	m.cluster.register(m.registry)
	return m
}

// ListenFailed counts an attempt to serve these metrics.
func (m *Metrics) ListenFailed() { m.listens.Inc() }

// Gather implements prometheus.Gatherer.
func (m *Metrics) Gather() ([]*dto.MetricFamily, error) {
	families, err := m.registry.Gather()
	if m.pods == nil {
		return families, err
	}
	pods, podsErr := m.pods.gather()
	return merge(families, pods), errors.Join(err, podsErr)
}

// prefix is the prefix of all metrics but those of the KEP.
const prefix = "systempartition_"

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
