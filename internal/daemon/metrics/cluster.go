package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"node-partition.io/node-partition/internal/cluster"
)

// clusterCounts counts what is written to the API server beside evictions.
type clusterCounts struct {
	events *prometheus.CounterVec
	marks  *prometheus.CounterVec
}

func newCluster() clusterCounts {
	c := clusterCounts{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "cluster_events_total",
			Help: "Events about pods and the node at the API server: created, repeated (the count of one was raised), " +
				"or dropped, because the API server refused them or too many waited for it.",
		}, []string{"result"}),
		marks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "node_status_writes_total",
			Help: "Attempts to write labels and the condition of the node, by result; 0 without --node-status.",
		}, []string{"result"}),
	}
	for _, result := range cluster.Results() {
		c.events.WithLabelValues(string(result))
	}
	for _, result := range []string{succeeded, failed} {
		c.marks.WithLabelValues(result)
	}
	return c
}

func (c clusterCounts) register(to prometheus.Registerer) { to.MustRegister(c.events, c.marks) }

// EventWritten counts events, or occurrences that were dropped.
func (m *Metrics) EventWritten(result cluster.Result, n int) {
	m.cluster.events.WithLabelValues(string(result)).Add(float64(n))
}

// NodeStatusWritten counts an attempt to write labels and the condition of the node.
func (m *Metrics) NodeStatusWritten(written bool) {
	m.cluster.marks.WithLabelValues(resultOf(written)).Inc()
}

// resultOf returns the value of the label result.
func resultOf(done bool) string {
	if done {
		return succeeded
	}
	return failed
}
