package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
)

// evictions has the families of evictions and of kills by the kernel. Their label partition comes
// first.
type evictions struct {
	evictions   *prometheus.CounterVec
	reaction    *prometheus.HistogramVec
	failures    *prometheus.CounterVec
	noCandidate *prometheus.CounterVec
	kills       *prometheus.CounterVec
}

func newEvictions() evictions {
	return evictions{
		evictions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "evictions_total",
			Help: "Pods of a partition that were evicted because its memory was low, by the threshold that was crossed and the method: " +
				"evicted for good, or restarted. Counted when the eviction has ended.",
		}, []string{"partition", "threshold", "method", "dry_run"}),
		reaction: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    prefix + "eviction_reaction_seconds",
			Help:    "Time from the poll that found a threshold crossed to the end of the pod's processes, or, with a grace period, to the request to stop them.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 2.5, 5, 10, 30},
		}, []string{"partition"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "eviction_failures_total",
			Help: "Failed steps of evictions, by step. The journal has the reasons.",
		}, []string{"partition", "step"}),
		noCandidate: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "eviction_no_candidates_total",
			Help: "Times, once a minute at most, that a pod had to be evicted and there was no candidate: from then on the kernel kills at the limit.",
		}, []string{"partition"}),
		kills: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "kernel_kills_total",
			Help: "Processes in a partition that the kernel killed while this program ran, by the limit that was reached.",
		}, []string{"partition", "limit"}),
	}
}

func (e evictions) register(to prometheus.Registerer) {
	to.MustRegister(e.evictions, e.reaction, e.failures, e.noCandidate, e.kills)
}

// of returns the recorder of a partition. It creates the series whose labels are known already.
func (e evictions) of(partition partition.Name) Evictions {
	label := prometheus.Labels{"partition": string(partition)}
	r := Evictions{
		evictions:   e.evictions.MustCurryWith(label),
		reaction:    e.reaction.With(label),
		failures:    e.failures.MustCurryWith(label),
		noCandidate: e.noCandidate.With(label),
		kills:       e.kills.MustCurryWith(label),
	}
	for _, threshold := range []evict.Threshold{evict.Hard, evict.Soft} {
		for _, method := range []evict.Method{evict.Evict, evict.Restart} {
			r.evictions.WithLabelValues(string(threshold), string(method), "false")
		}
	}
	for _, step := range evict.Steps() {
		r.failures.WithLabelValues(string(step))
	}
	for _, limit := range []evict.KilledAt{evict.AtPartition, evict.AtPod} {
		r.kills.WithLabelValues(string(limit))
	}
	return r
}

// remove removes the series with a label.
func (e evictions) remove(label prometheus.Labels) {
	e.evictions.DeletePartialMatch(label)
	e.reaction.DeletePartialMatch(label)
	e.failures.DeletePartialMatch(label)
	e.noCandidate.DeletePartialMatch(label)
	e.kills.DeletePartialMatch(label)
}

// Evictions counts the evictions of one partition, and the kernel's kills in it.
type Evictions struct {
	evictions   *prometheus.CounterVec
	reaction    prometheus.Observer
	failures    *prometheus.CounterVec
	noCandidate prometheus.Counter
	kills       *prometheus.CounterVec
}

// Evictions returns the recorder of a partition.
func (m *Metrics) Evictions(partition partition.Name) Evictions {
	return m.evictions.of(partition)
}

// Signalled counts an eviction whose containers were signalled to end, took after the poll that
// found the threshold crossed.
func (e Evictions) Signalled(took time.Duration) { e.reaction.Observe(took.Seconds()) }

// Evicted counts an eviction that has ended, or a dry run.
func (e Evictions) Evicted(ended evict.Eviction) {
	labels := []string{string(ended.Threshold), string(ended.Method), strconv.FormatBool(ended.DryRun)}
	e.evictions.WithLabelValues(labels...).Inc()
}

// Failed counts a failed step of an eviction, or a failed poll.
func (e Evictions) Failed(step evict.Step) { e.failures.WithLabelValues(string(step)).Inc() }

// NoCandidate counts that a pod has to be evicted and there is no candidate.
func (e Evictions) NoCandidate() { e.noCandidate.Inc() }

// KernelKilled counts processes of the partition that the kernel has killed.
func (e Evictions) KernelKilled(limit evict.KilledAt, processes uint64) {
	e.kills.WithLabelValues(string(limit)).Add(float64(processes))
}

// marginCollector collects how much memory each partition uses, as eviction counts it, and how much
// is left until an eviction. A partition has no metrics before its first poll.
type marginCollector struct {
	described
	partitions                                *series
	used, peak, ownerless                     *prometheus.Desc
	available, threshold, noCandidate, looked *prometheus.Desc
	effective                                 *prometheus.Desc
}

func newMarginCollector(partitions *series) *marginCollector {
	c := &marginCollector{partitions: partitions}
	c.used = c.desc(prefix+"memory_used_bytes",
		"Memory of a partition that the kernel cannot reclaim, as the last poll of eviction has read it: what is compared with the limit. "+
			"It is there without a limit, too.", "partition")
	c.peak = c.desc(prefix+"memory_used_peak_bytes",
		"Largest "+prefix+"memory_used_bytes of the polls in the last five minutes. Scrapes do not reset it.", "partition")
	c.ownerless = c.desc(prefix+"memory_ownerless_bytes",
		"Memory of a partition that the kernel cannot reclaim and that belongs to no pod that runs in it: what the kernel needs for the cgroups of pods, "+
			"files on a tmpfs that ended pods have left, and memory of pods that were moved out alive. Up to five minutes old while no threshold is crossed.",
		"partition")
	c.available = c.desc(prefix+"memory_available_bytes",
		"Memory that a partition may still use: its limit minus the memory that the kernel cannot reclaim. Page cache is not counted as used. "+
			"Absent without a limit.", "partition")
	c.effective = c.desc(prefix+"memory_limit_effective_bytes",
		"Limit that evictions keep a partition below: memoryLimit with what the node lends (memoryBurst), or an operator's. Absent without memoryBurst.",
		"partition")
	c.threshold = c.desc(prefix+"eviction_threshold_bytes",
		"Available memory below which a pod is evicted; absent if the threshold is off.", "partition", "threshold")
	c.noCandidate = c.desc(prefix+"eviction_without_candidate",
		"1 while a pod has to be evicted and there is no candidate, else 0.", "partition")
	c.looked = c.desc(prefix+"eviction_last_poll_timestamp_seconds",
		"Time of the last successful memory reading, in seconds since 1970; absent while reads fail.", "partition")
	return c
}

// Collect implements prometheus.Collector.
func (c *marginCollector) Collect(to chan<- prometheus.Metric) {
	for name, polls := range c.partitions.all() {
		if report := polls.Report(); !report.Time.IsZero() {
			c.partition(to, string(name), report)
		}
	}
}

func (c *marginCollector) partition(to chan<- prometheus.Metric, partition string, report evict.Report) {
	send(to, c.looked, prometheus.GaugeValue, float64(report.Time.UnixNano())/1e9, partition)
	send(to, c.used, prometheus.GaugeValue, float64(report.Memory.Used()), partition)
	send(to, c.peak, prometheus.GaugeValue, float64(report.UsedPeak), partition)
	send(to, c.ownerless, prometheus.GaugeValue, float64(report.Ownerless), partition)
	if report.Limit != cgroups.Unlimited {
		send(to, c.available, prometheus.GaugeValue, float64(report.Available), partition)
	}
	if report.Burst > 0 && report.Limit != cgroups.Unlimited {
		send(to, c.effective, prometheus.GaugeValue, float64(report.Limit), partition)
	}
	for _, t := range []struct {
		name  evict.Threshold
		bytes uint64
	}{{evict.Hard, report.Hard}, {evict.Soft, report.Soft}} {
		if t.bytes > 0 {
			send(to, c.threshold, prometheus.GaugeValue, float64(t.bytes), partition, string(t.name))
		}
	}
	send(to, c.noCandidate, prometheus.GaugeValue, number(report.NoCandidate), partition)
}
