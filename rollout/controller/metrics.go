package controller

import (
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"node-partition.io/node-partition/rollout/api/v1alpha1"
)

// Metrics are those of the controller beside controller-runtime's.
type Metrics struct {
	nodes, conditions *prometheus.GaugeVec
	tries             *prometheus.CounterVec
}

// label has the name of the NodePartition. partition is the one of a node elsewhere.
const label = "nodepartition"

func newMetrics() *Metrics {
	m := &Metrics{
		nodes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "nodepartition_rollout_nodes", Help: "Nodes of a NodePartition, by state.",
		}, []string{label, "state"}),
		conditions: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "nodepartition_rollout_condition", Help: "Whether a condition of a NodePartition is true.",
		}, []string{label, "condition"}),
		tries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodepartition_rollout_tries_total", Help: "Changes of nodes that have ended, by state.",
		}, []string{label, "state"}),
	}
	for _, c := range []prometheus.Collector{m.nodes, m.conditions, m.tries} {
		// A second controller of the same process has metrics that nobody reads.
		_ = metrics.Registry.Register(c)
	}
	return m
}

func (m *Metrics) set(p *v1alpha1.NodePartition) {
	n := p.Status.Nodes
	for state, count := range map[string]int32{
		"selected": n.Selected, "current": n.Current, "updating": n.Updating,
		"failed": n.Failed, "skipped": n.Skipped, "refused": n.Refused,
	} {
		m.nodes.WithLabelValues(p.Name, state).Set(float64(count))
	}
	for _, c := range p.Status.Conditions {
		value := 0.0
		if c.Status == metav1.ConditionTrue {
			value = 1
		}
		m.conditions.WithLabelValues(p.Name, c.Type).Set(value)
	}
}

func (m *Metrics) tried(name, state string) { m.tries.WithLabelValues(name, state).Inc() }

func (m *Metrics) forget(name string) {
	for _, v := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{m.nodes, m.conditions, m.tries} {
		v.DeletePartialMatch(prometheus.Labels{label: name})
	}
}
