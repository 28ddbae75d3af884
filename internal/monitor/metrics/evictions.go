package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nodepartition/internal/cgroupfs"
	"nodepartition/pkg/evict"
)

// evictions counts evictions and kills by the kernel.
type evictions struct {
	evictions   *prometheus.CounterVec
	reaction    prometheus.Histogram
	failures    *prometheus.CounterVec
	noCandidate prometheus.Counter
	kills       *prometheus.CounterVec
}

func newEvictions() evictions {
	e := evictions{
		evictions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "evictions_total",
			Help: "Pods of the system partition that were evicted because its memory was low, by the threshold that was crossed and the method: " +
				"evicted for good, or restarted. Counted when the eviction has ended.",
		}, []string{"threshold", "method", "dry_run"}),
		reaction: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    prefix + "eviction_reaction_seconds",
			Help:    "Time from the poll that found a threshold crossed to the end of the pod's processes, or, with a grace period, to the request to stop them.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1},
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "eviction_failures_total",
			Help: "Failed steps of evictions, by step. The journal has the reasons.",
		}, []string{"step"}),
		noCandidate: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "eviction_no_candidates_total",
			Help: "Times, once a minute at most, that a pod had to be evicted and there was no candidate: from then on the kernel kills at the limit.",
		}),
		kills: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "kernel_kills_total",
			Help: "Processes in the system partition that the kernel killed while this program ran, by the limit that was reached.",
		}, []string{"limit"}),
	}
	for _, threshold := range []evict.Threshold{evict.Hard, evict.Soft} {
		for _, method := range []evict.Method{evict.Evict, evict.Restart} {
			e.evictions.WithLabelValues(string(threshold), string(method), "false")
		}
	}
	for _, step := range evict.Steps() {
		e.failures.WithLabelValues(string(step))
	}
	for _, limit := range []evict.KilledAt{evict.AtPartition, evict.AtPod} {
		e.kills.WithLabelValues(string(limit))
	}
	return e
}

func (e evictions) register(to prometheus.Registerer) {
	to.MustRegister(e.evictions, e.reaction, e.failures, e.noCandidate, e.kills)
}

// Signalled counts an eviction whose containers were signalled to end, took after the poll that
// found the threshold crossed.
func (m *Metrics) Signalled(took time.Duration) { m.evictions.reaction.Observe(took.Seconds()) }

// Evicted counts an eviction that has ended, or a dry run.
func (m *Metrics) Evicted(e evict.Eviction) {
	m.evictions.evictions.WithLabelValues(string(e.Threshold), string(e.Method), strconv.FormatBool(e.DryRun)).Inc()
}

// Failed counts a failed step of an eviction, or a failed poll.
func (m *Metrics) Failed(step evict.Step) { m.evictions.failures.WithLabelValues(string(step)).Inc() }

// NoCandidate counts that a pod has to be evicted and there is no candidate.
func (m *Metrics) NoCandidate() { m.evictions.noCandidate.Inc() }

// KernelKilled counts processes of the partition that the kernel has killed.
func (m *Metrics) KernelKilled(limit evict.KilledAt, processes uint64) {
	m.evictions.kills.WithLabelValues(string(limit)).Add(float64(processes))
}

// marginCollector collects how much memory is left until an eviction. It has no metrics before the
// first poll.
type marginCollector struct {
	report                                    func() evict.Report
	available, threshold, noCandidate, looked *prometheus.Desc
}

func newMarginCollector(report func() evict.Report) *marginCollector {
	return &marginCollector{
		report: report,
		available: prometheus.NewDesc(
			prefix+"memory_available_bytes",
			"Memory that the partition may still use: its limit minus the memory that the kernel cannot reclaim. Page cache is not counted as used. "+
				"Absent without a limit.",
			nil,
			nil,
		),
		threshold: prometheus.NewDesc(prefix+"eviction_threshold_bytes",
			"Available memory below which a pod is evicted; absent if the threshold is off.", []string{"threshold"}, nil),
		noCandidate: prometheus.NewDesc(prefix+"eviction_no_candidates",
			"1 while a pod has to be evicted and there is no candidate, else 0.", nil, nil),
		looked: prometheus.NewDesc(prefix+"eviction_last_poll_timestamp_seconds",
			"When the memory of the partition was last read; absent while it cannot be.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *marginCollector) Describe(to chan<- *prometheus.Desc) {
	to <- c.available
	to <- c.threshold
	to <- c.noCandidate
	to <- c.looked
}

// Collect implements prometheus.Collector.
func (c *marginCollector) Collect(to chan<- prometheus.Metric) {
	report := c.report()
	if report.Time.IsZero() {
		return
	}
	send(to, c.looked, prometheus.GaugeValue, float64(report.Time.UnixNano())/1e9)
	if report.Limit != cgroupfs.Unlimited {
		send(to, c.available, prometheus.GaugeValue, float64(report.Available))
	}
	for _, t := range []struct {
		name  evict.Threshold
		bytes uint64
	}{{evict.Hard, report.Hard}, {evict.Soft, report.Soft}} {
		if t.bytes > 0 {
			send(to, c.threshold, prometheus.GaugeValue, float64(t.bytes), string(t.name))
		}
	}
	noCandidate := 0.0
	if report.NoCandidate {
		noCandidate = 1
	}
	send(to, c.noCandidate, prometheus.GaugeValue, noCandidate)
}
