// Package metrics is what partition-monitor tells Prometheus: what it does itself, counted as it happens, and what the cgroups
// of the partition use, read at each scrape.
package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"

	"nodepartition/internal/cgroupfs"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/podmove"
)

// Options say what to show.
type Options struct {
	// Version of the program.
	Version string
	// Cgroups is where cgroups are read; empty is cgroupfs.Mount.
	Cgroups cgroupfs.FS
	// Reports has what the last pass found; needed.
	Reports Reports
	// Evictions has what the last look at the memory found; needed.
	Evictions func() evict.Report
	// PerPod adds series for each pod of the partition. Pods come and go, and a series of each stays in Prometheus.
	PerPod bool
	// ReadFailed hears of each cgroup that a scrape could not read, from any goroutine. nil is nobody: they are counted.
	ReadFailed func(error)
}

// Reports has the report of the last pass; its Time is zero before the end of the first.
type Reports interface {
	Report() podmove.Report
}

// Metrics is a prometheus.Gatherer with a registry of its own, and hears what is to be counted as a podmove.Observer; evictions are counted by methods of its own.
type Metrics struct {
	registry  *prometheus.Registry
	events    events
	evictions evictions
	sources   *sources
	listens   prometheus.Counter
}

var (
	_ prometheus.Gatherer = (*Metrics)(nil)
)

// New makes all series that can be known by now, so that rate() sees the first event too.
func New(o Options) *Metrics {
	if o.Cgroups == "" {
		o.Cgroups = cgroupfs.Mount
	}
	m := &Metrics{
		registry:  prometheus.NewRegistry(),
		events:    newEvents(),
		evictions: newEvictions(),
		sources:   newSources(),
		listens: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "listen_failures_total",
			Help: "Attempts to serve metrics and health that failed, because somebody else had the port or it was no address of the node.",
		}),
	}
	failures := prometheus.NewCounter(prometheus.CounterOpts{
		Name: prefix + "cgroup_read_failures_total",
		Help: "Cgroups that could not be read at a scrape, and whose series it lacks. One that is gone is none of them.",
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
		newSliceCollector(read),
		newReportCollector(o.Reports),
		newMarginCollector(o.Evictions),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	if o.PerPod {
		m.registry.MustRegister(newPodCollector(read, o.Reports))
	}
	m.events.register(m.registry)
	m.evictions.register(m.registry)
	m.sources.register(m.registry)
	return m
}

// ListenFailed counts an attempt to serve these metrics.
func (m *Metrics) ListenFailed() { m.listens.Inc() }

// Gather implements prometheus.Gatherer.
func (m *Metrics) Gather() ([]*dto.MetricFamily, error) { return m.registry.Gather() }

// prefix is of all metrics but those of the KEP.
const prefix = "systempartition_"

// send gives a value to a scrape. A label that is not UTF-8 makes an error of the scrape, beside the other series.
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
