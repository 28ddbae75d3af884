package metrics

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/thresholds"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/podmove/report"
	"node-partition.io/node-partition/pkg/slices/decision"
	"node-partition.io/node-partition/tests/testkit"
)

const telemetry partition.Name = "telemetry"

// twoPartitions returns the metrics of a node with the partitions system and telemetry. All events
// and figures are telemetry's, except the cgroups of testdata/node.
func twoPartitions(t *testing.T) *Metrics {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("testdata/node")); err != nil {
		t.Fatal(err)
	}
	file := func(slice, name, text string) {
		testkit.WriteFile(t, filepath.Join(root, partition.CgroupPath(slice), name), text)
	}
	burstable := func(p partition.Name, last string) string {
		return partition.PodSlice(p, v1.PodQOSBurstable, uid+last)
	}
	for slice, usage := range map[string]string{
		telemetry.Slice(): "67108864",
		partition.QoSSlice(telemetry, v1.PodQOSBurstable): "67108864",
		burstable(telemetry, "6"):                         "33554432",
	} {
		file(slice, "memory.current", usage+"\n")
		file(slice, "memory.stat", "anon 1\ninactive_file 0\n")
		file(slice, "memory.max", "max\n")
		file(slice, "memory.swap.current", "0\n")
		file(slice, "memory.events", "oom_kill 0\n")
		file(slice, "memory.events.local", "max 0\noom 0\n")
		file(slice, "cpu.stat", "usage_usec 1000000\n")
	}
	reports := found{Time: time.Unix(1_780_000_000, 0), Outlived: []report.Outlived{
		{Slice: partition.PodSlice(telemetry, v1.PodQOSGuaranteed, uid+"8"), Scope: "crio-1.scope"},
	}, Pods: []report.Pod{
		{Namespace: "telemetry", Name: "agent", UID: uid + "6", Slice: burstable(telemetry, "6"), Containers: 1, OutsideBytes: 4096},
		{Namespace: "web", Name: "lost", UID: uid + "7", Slice: burstable(telemetry, "7"), Containers: 1, Reason: report.Pending},
		{Namespace: "web", Name: "shop", UID: uid + "5", Slice: burstable(partition.Default, "5"), Containers: 1},
	}}
	m := served(options{
		Cgroups: cgroups.FS(root), Reports: reports, PerPod: true, ReadFailed: func(err error) { t.Error(err) },
		Partitions: []polled{
			{partition.System, func() evict.Report { return evict.Report{} }}, // no poll yet
			{telemetry, margin},
		},
	})
	e := m.Evictions(telemetry)
	e.Signalled(time.Millisecond)
	e.Evicted(evict.Eviction{Verdict: evict.Verdict{Threshold: evict.Hard, Method: evict.Evict}})
	e.Failed(evict.StepAPI)
	e.NoCandidate()
	e.KernelKilled(evict.AtPartition, 2)
	m.Placed(podmove.Placement{Method: podmove.Creation, To: telemetry, Took: time.Millisecond})
	m.SetConfiguration(decision.Decision{Partitions: []decision.Partition{lowering(telemetry, 128<<20)}})
	return m
}

// lowering returns a partition whose limit waits.
func lowering(name partition.Name, limit uint64) decision.Partition {
	return decision.Partition{Name: name, Eviction: &thresholds.Thresholds{Limit: limit}, Deferral: &decision.Deferral{}}
}

// TestMetricsOfTwoPartitions: what happens to one partition has no series of the other, or one that
// remains 0. The default partition has neither's memory.
func TestMetricsOfTwoPartitions(t *testing.T) {
	t.Parallel()
	text := scrape(t, twoPartitions(t))
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		// Those of cgroups are of testdata/node, and of nothing that happened.
		ofCgroup := strings.Contains(name, "slice=") || strings.Contains(name, "kubelet_partition_memory_")
		if strings.Contains(name, `partition="system"`) && !ofCgroup && value != "0" {
			t.Errorf("system has what happened to telemetry: %s", line)
		}
		_, slice, found := strings.Cut(name, `slice="kubepods-`)
		if found && strings.Contains(name, `partition="telemetry"`) != strings.HasPrefix(slice, "telemetry") {
			t.Errorf("the slice is of the other partition: %s", line)
		}
	}
	pod := fmt.Sprintf(`{namespace="telemetry",partition="telemetry",pod="agent",uid="%s6"} `, uid)
	for _, want := range []string{
		`nodepartition_evictions_total{dry_run="false",method="evict",partition="telemetry",threshold="hard"} 1`,
		`nodepartition_eviction_reaction_seconds_count{partition="telemetry"} 1`,
		`nodepartition_eviction_failures_total{partition="telemetry",step="api"} 1`,
		`nodepartition_eviction_no_candidates_total{partition="telemetry"} 1`,
		`nodepartition_kernel_kills_total{limit="partition",partition="telemetry"} 2`,
		`nodepartition_memory_available_bytes{partition="telemetry"} 3.145728e+08`,
		`nodepartition_memory_used_bytes{partition="telemetry"} 1.90840832e+08`,
		`nodepartition_memory_used_peak_bytes{partition="telemetry"} 2.62144e+08`,
		`nodepartition_eviction_threshold_bytes{partition="telemetry",threshold="hard"} 1.048576e+08`,
		`nodepartition_eviction_last_poll_timestamp_seconds{partition="telemetry"} 1.78e+09`,
		`nodepartition_eviction_without_candidate{partition="telemetry"} 0`,
		`nodepartition_misplaced_pods{partition="telemetry",reason="pending"} 1`,
		`nodepartition_memory_outside_bytes{partition="telemetry"} 4096`,
		`nodepartition_outlived_scopes{partition="telemetry"} 1`,
		`nodepartition_members_memory_request_bytes{partition="telemetry"} 2.3068672e+08`,
		`nodepartition_memory_waiting_bytes{partition="telemetry"} 4096`,
		`nodepartition_configured_memory_limit_bytes{partition="telemetry"} 1.34217728e+08`,
		`nodepartition_memory_limit_lowering{partition="telemetry"} 1`,
		`nodepartition_pod_memory_working_set_bytes` + pod + `3.3554432e+07`,
		`nodepartition_pod_cpu_seconds_total` + pod + `1`,
		`nodepartition_placements_total{method="creation",partition="telemetry",result="success"} 1`,
		`nodepartition_memory_usage_bytes{partition="system",slice="kubepods-system.slice"} 1.048576e+08`,
		`nodepartition_memory_usage_bytes{partition="telemetry",slice="kubepods-telemetry.slice"} 6.7108864e+07`,
		`kubelet_partition_memory_usage_bytes{partition="system"} 1.048576e+08`,
		`kubelet_partition_memory_usage_bytes{partition="telemetry"} 6.7108864e+07`,
		// kubepods.slice has 1024 MiB, system 100 of them and telemetry 64.
		fmt.Sprintf(`kubelet_partition_memory_usage_bytes{partition="default"} %v`, float64((1024-100-64)<<20)),
		`kubelet_partition_pods{partition="default"} 1`,
		`kubelet_partition_pods{partition="system"} 0`,
		`kubelet_partition_pods{partition="telemetry"} 2`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	// A partition without a limit, or before its first poll, has no series for it.
	for _, never := range []string{
		`nodepartition_memory_available_bytes{partition="system"}`,
		`nodepartition_memory_used_bytes{partition="system"}`,
		`nodepartition_memory_used_peak_bytes{partition="system"}`,
		`nodepartition_configured_memory_limit_bytes{partition="system"}`,
		`nodepartition_memory_available_bytes{partition="default"}`,
		`nodepartition_misplaced_pods{partition="default"`,
	} {
		if strings.Contains(text, never) {
			t.Errorf("%s is there", never)
		}
	}
}

// TestMetricsDefaultWithoutOnePartition: the default partition is unknown while the memory of one
// partition is, because it would have that memory.
func TestMetricsDefaultWithoutOnePartition(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("testdata/node")); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(root, partition.CgroupPath(telemetry.Slice()), "memory.current")
	testkit.WriteFile(t, broken, "lots\n")
	text := scrape(t, served(options{
		Cgroups: cgroups.FS(root), Reports: found{},
		Partitions: []polled{{telemetry, margin}, {partition.System, margin}},
	}))
	if !strings.Contains(text, `kubelet_partition_memory_usage_bytes{partition="system"}`) {
		t.Errorf("system can be read, and is missing:\n%s", text)
	}
	if strings.Contains(text, `kubelet_partition_memory_usage_bytes{partition="default"}`) {
		t.Errorf("default is there:\n%s", text)
	}
}

// TestMetricsWithoutLimit: what a partition uses is known without a limit, and what is left is not.
func TestMetricsWithoutLimit(t *testing.T) {
	t.Parallel()
	unlimited := func() evict.Report {
		r := margin()
		r.Limit, r.Memory.Max = cgroups.Unlimited, cgroups.Unlimited
		r.Hard, r.Soft = 0, 0
		return r
	}
	text := scrape(t, served(options{Cgroups: cgroups.FS(t.TempDir()), Reports: found{}, Partitions: []polled{{telemetry, unlimited}}}))
	for _, want := range []string{
		`nodepartition_memory_used_bytes{partition="telemetry"} 1.90840832e+08`,
		`nodepartition_memory_used_peak_bytes{partition="telemetry"} 2.62144e+08`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s:\n%s", want, text)
		}
	}
	for _, never := range []string{"nodepartition_memory_available_bytes", "nodepartition_eviction_threshold_bytes"} {
		if strings.Contains(text, "\n"+never) {
			t.Errorf("%s is there:\n%s", never, text)
		}
	}
}
