package controller

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/rollout/api/v1alpha1"
	"node-partition.io/node-partition/rollout/plan"
)

var update = flag.Bool("update", false, "write what is served")

// TestMetrics: what is served of a NodePartition, and nothing once it is gone. The dashboard and
// the alerts are checked against the file.
func TestMetrics(t *testing.T) {
	t.Parallel()
	m := newMetrics()
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.nodes, m.conditions, m.tries)
	text := func() []byte {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		for _, f := range families {
			if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
				t.Fatal(err)
			}
		}
		return out.Bytes()
	}
	p := &v1alpha1.NodePartition{ObjectMeta: metav1.ObjectMeta{Name: "general"}, Status: v1alpha1.NodePartitionStatus{
		Nodes: v1alpha1.Nodes{Selected: 9, Current: 4, Updating: 2, Failed: 1, Skipped: 1, Refused: 1},
		Conditions: []metav1.Condition{
			{Type: v1alpha1.Accepted, Status: metav1.ConditionTrue}, {Type: v1alpha1.Progressing, Status: metav1.ConditionTrue},
			{Type: v1alpha1.Available, Status: metav1.ConditionFalse}, {Type: v1alpha1.Degraded, Status: metav1.ConditionTrue},
		},
	}}
	m.set(p)
	for _, state := range []string{plan.Kept, plan.Failed, plan.Refused, plan.Skipped, "removed"} {
		m.tried(p.Name, state)
	}
	const file = "testdata/metrics.txt"
	if *update {
		if err := os.WriteFile(file, text(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || !bytes.Equal(text(), want) {
		t.Errorf("%v: served:\n%s\nwant\n%s", err, text(), want)
	}
	m.forget(p.Name)
	if left := text(); len(left) > 0 {
		t.Errorf("of one that is gone:\n%s", left)
	}
}
