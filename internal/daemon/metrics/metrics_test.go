package metrics

import (
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/budget"
	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/cluster"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/thresholds"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/podmove/report"
	"node-partition.io/node-partition/pkg/slices/decision"
)

var update = flag.Bool("update", false, "write the expected text")

// report is a podmove.Report that does not change.
type found report.Report

func (r found) Report() report.Report { return report.Report(r) }

// uid is the UID of a pod of testdata/node without its last digit.
const uid = "0a1b2c3d-0000-4000-8000-00000000000"

func sampleReport() found {
	return found{Time: time.Unix(1_780_000_000, 250e6).UTC(), Pods: []report.Pod{
		{
			Namespace: "kube-system", Name: "etcd-node", UID: uid + "1", QoS: v1.PodQOSGuaranteed, Member: true, Belongs: partition.System,
			Slice: partition.PodSlice(partition.System, v1.PodQOSGuaranteed, uid+"1"), Containers: 1, LiveMoved: 1, OutsideBytes: 4096,
		},
		{
			Namespace: "kube-system", Name: "kube-proxy-x2x4z", UID: uid + "2", QoS: v1.PodQOSBurstable, Member: true, Belongs: partition.System,
			Slice: partition.PodSlice(partition.System, v1.PodQOSBurstable, uid+"2"), Containers: 2,
		},
		{ // its slice was just removed
			Namespace: "kube-system", Name: "job", UID: uid + "3", QoS: v1.PodQOSBestEffort, Member: true, Belongs: partition.System,
			Slice:    partition.PodSlice(partition.System, v1.PodQOSBestEffort, uid+"3"),
			Workload: &report.Workload{Type: "management", By: partition.ByStatic},
		},
		{
			Namespace: "kube-system", Name: "coredns-1", UID: uid + "4", QoS: v1.PodQOSBurstable, Member: true, Belongs: partition.System,
			Slice: partition.PodSlice(partition.Default, v1.PodQOSBurstable, uid+"4"), Containers: 1, Misplaced: 1, Reason: report.Pending,
		},
		{
			Namespace: "web", Name: "shop-1", UID: uid + "5", QoS: v1.PodQOSBurstable,
			Slice: partition.PodSlice(partition.Default, v1.PodQOSBurstable, uid+"5"), Containers: 1,
			Workload: &report.Workload{Type: "management", Refused: partition.NotAllowed},
		},
	}, Outlived: []report.Outlived{{Slice: "kubepods-system-pod6.slice", Scope: "crio-7.scope"}}}
}

// margin is an evict.Report that does not change.
func margin() evict.Report {
	return evict.Report{
		Time: time.Unix(1_780_000_000, 0), Available: 300 << 20, Lent: 12 << 20,
		Thresholds: thresholds.Thresholds{Limit: 512 << 20, Burst: 100 << 20, Hard: 100 << 20, Soft: 200 << 20},
		Memory:     cgroups.MemoryReading{Current: 212 << 20, InactiveFile: 20 << 20, ActiveFile: 10 << 20}, UsedPeak: 250 << 20,
	}
}

// options holds what a test serves.
type options struct {
	Version    string
	Cgroups    cgroups.FS
	PerPod     bool
	ReadFailed func(error)
	Partitions []polled
	Reports    Reports
}

// polled is a partition with the report of its last poll.
type polled struct {
	Name      partition.Name
	Evictions pollsFunc
}

type pollsFunc func() evict.Report

func (f pollsFunc) Report() evict.Report { return f() }

// served returns metrics that follow the passes and polls of a test.
func served(o options) *Metrics {
	m := New(Options{Version: o.Version, Cgroups: o.Cgroups, PerPod: o.PerPod, ReadFailed: o.ReadFailed})
	for _, p := range o.Partitions {
		m.Add(p.Name, p.Evictions)
	}
	m.Follow(o.Reports)
	m.FollowMembers(o.members)
	return m
}

// members returns the memory of the members of a partition that was polled.
func (o options) members(name partition.Name) (Members, bool) {
	known := !o.Reports.Report().Time.IsZero()
	for _, p := range o.Partitions {
		if p.Name == name && !p.Evictions().Time.IsZero() {
			return Members{RequestBytes: 220 << 20, WaitingBytes: 4096, RecommendedBytes: 272 << 20, Measured: 11 * time.Hour}, known
		}
	}
	return Members{}, known
}

// system returns the partition that a node has today.
func system() []polled { return []polled{{Name: partition.System, Evictions: margin}} }

// observe counts each kind of event.
func observe(o *Metrics) {
	evictions := o.Evictions(partition.System)
	evictions.Signalled(300 * time.Microsecond)
	evictions.Evicted(evict.Eviction{Verdict: evict.Verdict{Threshold: evict.Hard, Method: evict.Evict}})
	evictions.Evicted(evict.Eviction{Verdict: evict.Verdict{Threshold: evict.Soft, Method: evict.Restart}, DryRun: true})
	evictions.Failed(evict.StepAPI)
	evictions.NoCandidate()
	evictions.KernelKilled(evict.AtPod, 2)
	o.Placed(podmove.Placement{Method: podmove.Creation, To: partition.System, Took: 300 * time.Microsecond})
	o.Placed(podmove.Placement{Method: podmove.Restart, To: partition.System, Took: 12 * time.Second, Err: podmove.ErrInVain})
	o.Placed(podmove.Placement{Method: podmove.Live, To: partition.Default, Took: 40 * time.Millisecond})
	o.Reconciled(20*time.Millisecond, nil)
	o.Reconciled(3*time.Second, errors.New("systemd is busy"))
	o.SetConfiguration(decision.Decision{
		Section: "0123456789abcdef", Trial: true,
		Partitions: []decision.Partition{lowering(partition.System, 512<<20)},
		Workloads:  []partition.Workload{{Type: "management", Partition: partition.System}},
	}, KubeletsFile)
	o.SetBudget(&budget.Budget{
		Capacity:     budget.Resources{MemoryBytes: 8 << 30},
		KubeReserved: budget.Resources{MemoryBytes: 1 << 30},
		Allocatable:  budget.Resources{MemoryBytes: 7 << 30},
		Partitions: []budget.Partition{
			{Name: partition.System, Resources: budget.Resources{MemoryBytes: 384 << 20}},
			{Name: telemetry, Resources: budget.Resources{MemoryBytes: 128 << 20}},
		},
		Remainder: budget.Resources{MemoryBytes: 7<<30 - 512<<20},
	})
	o.EventWritten(cluster.Created, 1)
	o.EventWritten(cluster.Dropped, 3)
	o.NodeStatusWritten(true)
	o.Connected("systemd", true)
	o.Connected("nri", false)
	for range 3 {
		o.Connected("nri", true)
		o.Connected("nri", true) // a second time
		o.Connected("nri", false)
		o.Connected("nri", false)
	}
}

// scrape returns our metrics in the text format.
func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(m, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(recorder.Body)
	if err != nil {
		t.Fatal(err)
	}
	if recorder.Code != 200 {
		t.Fatalf("status %d: %s", recorder.Code, body)
	}
	var ours strings.Builder
	for line := range strings.Lines(string(body)) {
		name := strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE ")
		if strings.HasPrefix(name, prefix) || strings.HasPrefix(name, "kubelet_") {
			ours.WriteString(line)
		}
	}
	return ours.String()
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("not %s; go test -update writes it, read the difference. Got:\n%s", path, got)
	}
}

// withoutGo removes the version of Go, which differs between builds.
func withoutGo(text string) string {
	before, after, _ := strings.Cut(text, `goversion="`)
	_, after, _ = strings.Cut(after, `"`)
	return before + `goversion=""` + after
}

func TestMetricsText(t *testing.T) {
	t.Parallel()
	m := served(options{Version: "v1.2.3", Cgroups: "testdata/node", Partitions: system(), Reports: sampleReport(), PerPod: true})
	observe(m)
	golden(t, "expected.txt", withoutGo(scrape(t, m)))
}

// TestMetricsTextAtStart: the metrics before any event, on a node without a partition, without
// controllers and before the first reconcile.
func TestMetricsTextAtStart(t *testing.T) {
	t.Parallel()
	m := served(options{Version: "v1.2.3", Cgroups: cgroups.FS(t.TempDir()), Partitions: system(), Reports: found{}, PerPod: true})
	golden(t, "expected-at-start.txt", withoutGo(scrape(t, m)))
}

func TestMetricsLint(t *testing.T) {
	t.Parallel()
	m := served(options{Version: "v1.2.3", Cgroups: "testdata/node", Partitions: system(), Reports: sampleReport(), PerPod: true})
	observe(m)
	problems, err := testutil.GatherAndLint(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if p.Metric == "kubelet_partition_pod_count" {
			continue // the KEP gave it the suffix of a histogram's series
		}
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestMetricsUnreadableCgroup(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("testdata/node")); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(root, "kubepods.slice/kubepods-system.slice/memory.current")
	if err := os.WriteFile(broken, []byte("lots\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var failed []error
	m := served(options{Cgroups: cgroups.FS(root), Partitions: system(), Reports: sampleReport(), ReadFailed: func(err error) { failed = append(failed, err) }})
	text := scrape(t, m)
	if len(failed) != 1 || !strings.Contains(failed[0].Error(), broken) {
		t.Errorf("told of %v, want one error that names %s", failed, broken)
	}
	for _, want := range []string{
		`nodepartition_memory_usage_bytes{partition="system",slice="kubepods-system-burstable.slice"}`, "nodepartition_misplaced_pods",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing, although it could be read", want)
		}
	}
	for _, never := range []string{`slice="kubepods-system.slice"}`, "kubelet_partition_memory_usage_bytes"} {
		if strings.Contains(text, never) {
			t.Errorf("%s is there, although what it says is unknown:\n%s", never, text)
		}
	}
	if text = scrape(t, m); !strings.Contains(text, "nodepartition_cgroup_read_failures_total ") ||
		strings.Contains(text, "nodepartition_cgroup_read_failures_total 0") {
		t.Errorf("the failure is not counted:\n%s", text)
	}
}

// TestPodMetricsHostileName: a name that is not UTF-8 costs its own series and no other.
func TestPodMetricsHostileName(t *testing.T) {
	t.Parallel()
	r := sampleReport()
	r.Pods[0].Name = "etcd\xff"
	m := served(options{Cgroups: "testdata/node", Partitions: system(), Reports: r, PerPod: true})
	families, err := m.Gather()
	if err == nil {
		t.Error("no error for a name that is not UTF-8")
	}
	for _, f := range families {
		if f.GetName() == prefix+"pod_cpu_seconds_total" && len(f.GetMetric()) == 1 {
			return
		}
	}
	t.Error("the other pod is missing")
}

func TestSources(t *testing.T) {
	t.Parallel()
	m := served(options{Partitions: system(), Reports: found{}})
	for _, step := range []struct{ up, changed bool }{{false, false}, {true, true}, {true, false}, {false, true}} {
		if changed := m.Connected("kubelet", step.up); changed != step.changed {
			t.Errorf("up: %t, changed: %t", step.up, changed)
		}
	}
}

// TestMetricsConcurrent: scrapes and events come from many goroutines. The race detector is the
// judge.
func TestMetricsConcurrent(t *testing.T) {
	t.Parallel()
	m := served(options{Cgroups: "testdata/node", Partitions: system(), Reports: sampleReport(), PerPod: true})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				observe(m)
			}
		})
		all.Go(func() {
			for range 20 {
				if _, err := m.Gather(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if text := scrape(t, m); !strings.Contains(text, `nodepartition_placements_total{method="creation",partition="system",result="success"} 200`) {
		t.Errorf("200 placements were made, and there are:\n%s", text)
	}
}
