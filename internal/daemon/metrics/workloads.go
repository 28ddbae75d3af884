package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"node-partition.io/node-partition/internal/partition"
)

// unknownType is the value of the label type for what the node has no type of: pods can ask for any
// number of names. No type has that name, because it is not a label by RFC 1123.
const unknownType = "unknown_type"

// workloadCollector collects which pods have a workload type, by the last reconcile. It has no
// metrics before the end of the first, and on a node without types.
type workloadCollector struct {
	described
	reports       Reports
	configuration *configurationCollector
	pods, refused *prometheus.Desc
}

func newWorkloadCollector(reports Reports, configuration *configurationCollector) *workloadCollector {
	c := &workloadCollector{reports: reports, configuration: configuration}
	c.pods = c.desc(prefix+"workload_pods",
		"Pods that are members of a partition by their workload type, by the right to it.", "partition", "type", "by")
	c.refused = c.desc(prefix+"workload_refused_pods",
		"Pods that ask for a workload type in vain, by the reason.", "type", "reason")
	return c
}

// Collect implements prometheus.Collector. The number of series is bounded by the configuration,
// whatever pods ask for.
func (c *workloadCollector) Collect(to chan<- prometheus.Metric) {
	report, types := c.reports.Report(), c.configuration.workloads()
	if report.Time.IsZero() || len(types) == 0 {
		return
	}
	type member struct {
		partition partition.Name
		name      string
		by        partition.By
	}
	type refusal struct {
		name   string
		reason partition.Refusal
	}
	members, refusals, known := map[member]int{}, map[refusal]int{}, map[string]bool{}
	for _, t := range types {
		known[t.Type] = true
	}
	for i := range report.Pods {
		pod := &report.Pods[i]
		w := pod.Workload
		if w == nil {
			continue
		}
		members[member{pod.Belongs, w.Type, w.By}]++
		asked := w.Type
		//guard: what a member by its namespace asks for is not counted as its own type
		//guard: names that pods ask for are in no label
		if w.By == partition.ByNamespace || !known[asked] {
			asked = unknownType // a member of another type asks for this one, if it has a name at all
		}
		refusals[refusal{asked, w.Refused}]++
	}
	for _, t := range types {
		for _, by := range partition.Rights() {
			n := members[member{t.Partition, t.Type, by}]
			send(to, c.pods, prometheus.GaugeValue, float64(n), string(t.Partition), t.Type, string(by))
		}
	}
	known[unknownType] = true
	for name := range known {
		for _, reason := range partition.Refusals() {
			send(to, c.refused, prometheus.GaugeValue, float64(refusals[refusal{name, reason}]), name, string(reason))
		}
	}
}
