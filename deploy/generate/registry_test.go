package main

import (
	"bytes"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// registry holds the metrics that the monitor serves, and the values of their labels.
type registry map[string]map[string][]string

// The texts of the metrics of the monitor and of the controller. A test of each compares it with
// what is served.
const (
	served           = "../../internal/daemon/metrics/testdata/expected.txt"
	servedForRollout = "../../rollout/controller/testdata/metrics.txt"
)

// targetLabels are the labels that Prometheus adds to all series of a target. cluster is an
// external one, or one that relabelling adds, as instance_type.
var targetLabels = []string{"cluster", "job", "instance", "instance_type"}

// openLabels have values that depend on the node.
var openLabels = []string{"version", "goversion", "hash", "nodepartition", "namespace", "pod", "uid", "le"}

func readRegistry(t *testing.T) registry {
	t.Helper()
	monitor, err := os.ReadFile(served)
	if err != nil {
		t.Fatal(err)
	}
	controller, err := os.ReadFile(servedForRollout)
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(io.MultiReader(bytes.NewReader(monitor), bytes.NewReader(controller)))
	if err != nil {
		t.Fatal(err)
	}
	// Prometheus makes up, and its client library the rest.
	r := registry{"up": {}, "process_resident_memory_bytes": {}, "process_start_time_seconds": {}}
	for name, family := range families {
		labels := map[string][]string{}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				labels[label.GetName()] = append(labels[label.GetName()], label.GetValue())
			}
		}
		if strings.EqualFold(family.GetType().String(), "histogram") {
			r[name+"_sum"], r[name+"_count"] = labels, labels
			labels = maps.Clone(labels)
			labels["le"] = nil
			name += "_bucket"
		}
		r[name] = labels
	}
	if len(r) == 0 {
		t.Fatalf("no metrics in %s", served)
	}
	return r
}

// has reports whether a metric has a label, by itself or by its target.
func (r registry) has(metric, label string) bool {
	_, own := r[metric][label]
	return own || slices.Contains(targetLabels, label)
}
