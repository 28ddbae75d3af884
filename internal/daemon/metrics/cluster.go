package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"nodepartition/internal/daemon/faults"
)

// cluster counts what is written to the API server beside evictions.
type cluster struct {
	events     *prometheus.CounterVec
	conditions *prometheus.CounterVec
	marks      *prometheus.CounterVec
}

func newCluster() cluster {
	c := cluster{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "cluster_events_total",
			Help: "Events about pods and the node at the API server: created, repeated (the count of one was raised), " +
				"or dropped, because the API server refused them or too many waited for it.",
		}, []string{"result"}),
		conditions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "node_condition_writes_total",
			Help: "Attempts to write the condition of the node, by result; 0 without --node-condition.",
		}, []string{"result"}),
	}
	for _, result := range faults.Results() {
		c.events.WithLabelValues(string(result))
	}
	c.marks = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "node_status_writes_total",
		Help: "Attempts to write the labels and the condition of readiness of the node, by result; 0 without --node-status.",
	}, []string{"result"})
	for _, result := range []string{succeeded, failed} {
		c.conditions.WithLabelValues(result)
		c.marks.WithLabelValues(result)
	}
	return c
}

func (c cluster) register(to prometheus.Registerer) { to.MustRegister(c.events, c.conditions, c.marks) }

// EventWritten counts events, or occurrences that were dropped.
func (m *Metrics) EventWritten(result faults.Result, n int) {
	m.cluster.events.WithLabelValues(string(result)).Add(float64(n))
}

// ConditionWritten counts an attempt to write the condition of the node.
func (m *Metrics) ConditionWritten(written bool) {
	m.cluster.conditions.WithLabelValues(resultOf(written)).Inc()
}

// MarksWritten counts an attempt to write the labels and the condition of readiness of the node.
func (m *Metrics) MarksWritten(written bool) {
	m.cluster.marks.WithLabelValues(resultOf(written)).Inc()
}

// resultOf returns the value of the label result.
func resultOf(written bool) string {
	if written {
		return succeeded
	}
	return failed
}
