package metrics

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// workloads returns the lines of the workload metrics that are not 0, for a node with two types,
// and their number.
func workloads(t *testing.T, types []partition.Workload, pods ...report.Pod) (counted []string, all int) {
	t.Helper()
	m := served(options{Cgroups: cgroups.FS(t.TempDir()), Partitions: system(), Reports: found{Time: time.Unix(1_780_000_000, 0), Pods: pods}})
	m.SetConfiguration(decision.Decision{Workloads: types})
	for line := range strings.Lines(scrape(t, m)) {
		if line, ok := strings.CutPrefix(strings.TrimSpace(line), prefix+"workload_"); ok {
			all++
			if !strings.HasSuffix(line, " 0") {
				counted = append(counted, line)
			}
		}
	}
	return counted, all
}

var types = []partition.Workload{{Type: "management", Partition: partition.System}, {Type: "telemetry", Partition: telemetry}}

// pod returns a pod with a workload type.
func pod(belongs partition.Name, w report.Workload) report.Pod {
	return report.Pod{Belongs: belongs, Workload: &w, Containers: 1}
}

// TestWorkloadMetrics: members count by partition, type and right, and refusals by type and reason.
func TestWorkloadMetrics(t *testing.T) {
	t.Parallel()
	got, _ := workloads(
		t, types,
		pod(telemetry, report.Workload{Type: "telemetry", By: partition.ByNamespace}),
		pod(telemetry, report.Workload{Type: "telemetry", By: partition.ByNamespace}),
		pod(partition.System, report.Workload{Type: "management", By: partition.ByStatic}),
		pod(telemetry, report.Workload{Type: "telemetry", By: partition.ByNamespaceAnnotation}),
		pod(partition.Default, report.Workload{Type: "telemetry", Refused: partition.NotAllowed}),
		pod(partition.Default, report.Workload{Type: "batch", Refused: partition.UnknownType}),
		pod(partition.Default, report.Workload{Refused: partition.TwoTypes}),
		// A member by its namespace asks for another type: its name is not known.
		pod(telemetry, report.Workload{Type: "telemetry", By: partition.ByNamespace, Refused: partition.NotAllowed}),
		report.Pod{Belongs: partition.System, Member: true},
	)
	want := []string{
		`pods{by="namespace",partition="telemetry",type="telemetry"} 3`,
		`pods{by="namespace-annotation",partition="telemetry",type="telemetry"} 1`,
		`pods{by="static",partition="system",type="management"} 1`,
		`refused_pods{reason="not-allowed",type="telemetry"} 1`,
		`refused_pods{reason="not-allowed",type="unknown_type"} 1`,
		`refused_pods{reason="two-types",type="unknown_type"} 1`,
		`refused_pods{reason="unknown-type",type="unknown_type"} 1`,
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestWorkloadMetricsBounded: names that pods ask for make no series, and hostile ones do not fail
// the scrape. A node without types has none of them.
func TestWorkloadMetricsBounded(t *testing.T) {
	t.Parallel()
	const many = 1000
	hostile := make([]report.Pod, 0, many)
	for n := range many {
		name := fmt.Sprintf("type-%d\xff\"", n)
		hostile = append(hostile, pod(partition.Default, report.Workload{Type: name, Refused: partition.UnknownType}))
	}
	_, few := workloads(t, types)
	got, all := workloads(t, types, hostile...)
	if all != few || len(got) != 1 || got[0] != `refused_pods{reason="unknown-type",type="unknown_type"} 1000` {
		t.Errorf("%d series, without pods %d: %s", all, few, got)
	}
	if want := 2*4 + 3*5; few != want {
		t.Errorf("%d series of two types; want %d", few, want)
	}
	if _, all = workloads(t, nil, hostile...); all != 0 {
		t.Errorf("%d series without a type", all)
	}
}

// TestWorkloadReasonsDocumented: the page that metrics.md refers to explains each reason.
func TestWorkloadReasonsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/workload-types.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range partition.Refusals() {
		if !strings.Contains(string(text), "\n| `"+string(reason)+"` | ") {
			t.Errorf("docs/workload-types.md does not explain %s", reason)
		}
	}
	for _, by := range partition.Rights()[1:] { // the first is the rule that needs no right
		if !strings.Contains(string(text), " | `"+string(by)+"` |\n") {
			t.Errorf("docs/workload-types.md does not explain %s", by)
		}
	}
}
