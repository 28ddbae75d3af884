package status

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/output"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove/report"
)

const uid = "11111111-2222-3333-4444-555555555555"

func reportOf(pods ...report.Pod) state.Status {
	return state.Status{Service: "ready", Report: report.Report{Pods: pods}}
}

// tables has what TestTable wants: the first node, with all its pods, and the second; and the JSON
// of the first, on whose fields scripts depend.
const tables = "testdata/tables.txt"

var update = flag.Bool("update", false, "write the tables")

// TestTable compares what people see of two nodes with testdata: one with each fact and each state
// of a pod, and one without partitions.
func TestTable(t *testing.T) {
	t.Parallel()
	full := guardedStatus()
	full.Pods = append(full.Pods,
		report.Pod{
			Namespace: "kube-system", Name: "job", UID: "job", Member: true, Belongs: partition.System, Containers: 2, Misplaced: 2,
			Slice: partition.PodSlice(partition.Default, v1.PodQOSBestEffort, uid), Reason: report.RestartPolicy, Next: "wait for its end",
		},
		report.Pod{
			Namespace: "kube-system", Name: "half", UID: "half", Member: true, Belongs: partition.System, Containers: 2, Misplaced: 1,
			Slice: partition.PodSlice(partition.Default, v1.PodQOSBurstable, uid), Reason: report.Pending, Next: "it is moved next",
		},
		report.Pod{
			Namespace: "old", Name: "leaves", UID: "leaves", Containers: 1, Misplaced: 1, Belongs: partition.Default,
			Slice: partition.PodSlice(partition.System, v1.PodQOSBurstable, uid), Reason: report.Moving, Next: "it is being moved",
		},
		report.Pod{Namespace: "web", Name: "shop", UID: "shop", Containers: 1, Slice: partition.PodSlice(partition.Default, v1.PodQOSBurstable, uid)},
		report.Pod{
			Namespace: "off", Name: "stays", UID: "stays", Containers: 1, Misplaced: 1,
			Slice: partition.PodSlice("gone", v1.PodQOSBurstable, uid), Reason: report.NextStart, Next: "it is placed when it starts",
		},
	)
	p := &full.Partitions[0]
	for i := range p.Eviction.Order {
		c := &p.Eviction.Order[i]
		full.Pods = append(full.Pods, report.Pod{
			Namespace: c.Namespace, Name: c.Name, UID: c.UID, Member: true, Belongs: partition.System, Containers: 1, LiveMoved: i % 2, OutsideBytes: 3 << 20,
			Slice: partition.PodSlice(partition.System, v1.PodQOSGuaranteed, uid),
		})
	}
	p.UsedBytes = 480 << 20
	p.Types, p.CPUs, p.Exclusive, p.SwapBytes, p.LowBytes = []string{"infra", "management"}, "0-1,3", true, 3<<20, 64<<20
	full.Problem = "config.yaml: memoryLimit: x\nconfig.yaml: cpuset: y"
	full.Outlived = []report.Outlived{{Slice: "kubepods-system-pod1.slice", Scope: "crio-2.scope"}}
	full.Trial = &state.Trial{From: "/tmp/new.yaml", Until: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)}
	soft := full.Partitions[0]
	soft.Name, soft.UsedBytes, soft.UsedPeakBytes, soft.MemoryBytes = "batch", 184<<20, 210<<20, 300<<20
	soft.Eviction = &state.Eviction{Mode: "on", AvailableBytes: 328 << 20, HardBytes: 32 << 20, SoftBytes: 128 << 20, SoftGrace: time.Minute}
	full.Pods[0].Workload = &report.Workload{Type: "a", By: partition.ByNamespace, Refused: partition.NotAllowed, MilliCPU: 1, Flaw: "flaw"}
	free := state.Partition{Name: "free", MemoryBytes: 1 << 20, UsedBytes: 1 << 20, CPUWeight: 1, Eviction: &state.Eviction{Mode: "on", NoLimit: true}}
	full.Partitions = append(full.Partitions, soft, free)
	none := reportOf()
	none.Service, none.PodsUnknown = "not running", "no runtime"
	var got bytes.Buffer
	for _, err := range []error{Table(false)(&got, full), Table(true)(&got, full), Table(true)(&got, none), output.JSON(&got, full)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if *update {
		if err := os.WriteFile(tables, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(tables); err != nil || got.String() != string(want) {
		t.Errorf("%v, got\n%s", err, &got)
	}
}

// hostile lists texts that a name, a message or a file could contain.
var hostile = []string{"</script><b>", `"quotes"\`, "a b", "caf\u00e9 \u202e\u2028", "%s%n", strings.Repeat("x", 300), "\xff\xfe", "\x1b[31mred", "a\tb\nc", "\x00"}

// guardedStatus returns a status with a partition that evicts.
func guardedStatus() state.Status {
	s := reportOf()
	limit := uint64(512 << 20)
	s.Partitions = []state.Partition{{
		Name: partition.System, Slice: partition.System.Slice(),
		Namespaces: []string{"kube-system"}, MemoryBytes: 490 << 20, LimitBytes: &limit, CPUWeight: 79,
	}}
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	of := func(minutes int, name string, method evict.Method) evict.Eviction {
		return evict.Eviction{
			PodMeta: evict.PodMeta{Namespace: "kube-system", Name: name},
			Verdict: evict.Verdict{Time: at.Add(time.Duration(minutes) * time.Minute), Threshold: evict.Hard, Method: method},
			Amounts: evict.Amounts{WorkingSetBytes: 130 << 20, RequestBytes: 70 << 20},
		}
	}
	refused, dry, open := of(3, "refused", evict.Restart), of(4, "dry", evict.Evict), of(6, "now", evict.Evict)
	refused.Problem = "not tried again: not allowed"
	dry.DryRun = true
	open.Threshold = evict.Soft
	s.Partitions[0].Eviction = &state.Eviction{
		Mode: "on", AvailableBytes: 22 << 20, WorkingSetBytes: 495 << 20, HardBytes: 32 << 20, SoftBytes: 64 << 20, SoftGrace: 90 * time.Second,
		Crossed: evict.Hard, Estimated: true,
		Order: []state.Candidate{
			{Namespace: "kube-system", Name: "etcd", UID: "1", WorkingSetBytes: 300 << 20, RequestBytes: 100 << 20, Skip: evict.SkipStatic},
			{Namespace: "kube-system", Name: "dns-1", UID: "2", Priority: -5, WorkingSetBytes: 80 << 20, RequestBytes: 70 << 20, Estimated: true},
			{Namespace: "monitoring", Name: "agent", UID: "3", Priority: 2_000_000_000, WorkingSetBytes: 10 << 20, RequestBytes: 20 << 20},
			{Namespace: "kube-system", Name: "proxy", UID: "4", Priority: 2_000_001_000, WorkingSetBytes: 5 << 20, Skip: evict.SkipNodeCritical},
		},
		Open: []evict.Eviction{open},
		Last: []evict.Eviction{of(0, "oldest", evict.Evict), of(1, "one", evict.Evict), of(2, "two", evict.Restart), refused, dry, of(5, "five", evict.Evict)},
	}
	return s
}

// TestTableHostile: names and messages come from other programs, and may contain anything.
func TestTableHostile(t *testing.T) {
	t.Parallel()
	lines := map[int]bool{}
	for _, name := range hostile {
		s := guardedStatus()
		s.Pods = []report.Pod{{Namespace: name, Name: name, Misplaced: 1, Reason: report.Reason(name), Next: name}}
		e := evict.Eviction{PodMeta: evict.PodMeta{Namespace: name, Name: name}, Problem: name}
		s.Partitions[0].Eviction.Last, s.Partitions[0].Eviction.Open = []evict.Eviction{e}, []evict.Eviction{e}
		s.Service, s.Problem = name, name
		var text bytes.Buffer
		if err := Table(true)(&text, s); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsFunc(strings.ReplaceAll(text.String(), "\n", ""), unicode.IsControl) {
			t.Errorf("%q: a control character in\n%q", name, &text)
		}
		lines[strings.Count(text.String(), "\n")] = true
	}
	if len(lines) != 1 {
		t.Errorf("a name makes lines: %v", lines)
	}
}
