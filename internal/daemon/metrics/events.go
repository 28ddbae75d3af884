package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove"
)

// events counts the work of reconciles.
type events struct {
	placements        *prometheus.CounterVec
	placementDuration *prometheus.HistogramVec
	reconcileDuration prometheus.Histogram
	reconcileFailures prometheus.Counter
}

func newEvents() events {
	e := events{
		placements: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "placements_total",
			Help: "Containers that were placed, or failed to be, by method, target partition and result.",
		}, []string{"method", "partition", "result"}),
		placementDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "placement_duration_seconds",
			Help: "Time that placing a container took, by method; failures included.",
			// From the answer to CreateContainer, which is made from memory, to a stop with the usual grace
			// period of 30 s.
			Buckets: []float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60},
		}, []string{"method"}),
		reconcileDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    prefix + "reconcile_duration_seconds",
			Help:    "Time that a reconcile of all pods took, failures included.",
			Buckets: prometheus.DefBuckets,
		}),
		reconcileFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "reconcile_failures_total",
			Help: "Reconciles that failed, at least in part. The journal has the reasons; the next reconcile tries again.",
		}),
	}
	for _, method := range []podmove.Method{podmove.Creation, podmove.Restart, podmove.Live} {
		e.placementDuration.WithLabelValues(string(method))
	}
	e.of(partition.Default)
	return e
}

// of creates the series of a partition.
func (e events) of(partition partition.Name) {
	for _, method := range []podmove.Method{podmove.Creation, podmove.Restart, podmove.Live} {
		for _, result := range []string{succeeded, failed} {
			e.placements.WithLabelValues(string(method), string(partition), result)
		}
	}
}

func (e events) register(to prometheus.Registerer) {
	to.MustRegister(e.placements, e.placementDuration, e.reconcileDuration, e.reconcileFailures)
}

// The values of the label result.
const (
	succeeded = "success"
	failed    = "failure"
)

// Placed counts a container that was placed, or failed to be.
func (m *Metrics) Placed(p podmove.Placement) {
	m.events.placements.WithLabelValues(string(p.Method), string(p.To), resultOf(p.Err == nil)).Inc()
	m.events.placementDuration.WithLabelValues(string(p.Method)).Observe(p.Took.Seconds())
}

// Reconciled counts a reconcile.
func (m *Metrics) Reconciled(took time.Duration, err error) {
	m.events.reconcileDuration.Observe(took.Seconds())
	if err != nil {
		m.events.reconcileFailures.Inc()
	}
}
