package status

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove/report"
)

const uid = "11111111-2222-3333-4444-555555555555"

func reportOf(pods ...report.Pod) state.Status {
	return state.Status{Service: "ready", Report: report.Report{Pods: pods}}
}

func table(t *testing.T, s state.Status) string {
	t.Helper()
	var out bytes.Buffer
	if err := WriteTable(&out, s); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTable(t *testing.T) {
	t.Parallel()
	s := reportOf(
		report.Pod{
			Namespace: "kube-system", Name: "etcd", QoS: v1.PodQOSGuaranteed, Member: true, Containers: 1, LiveMoved: 1, OutsideBytes: 3 << 20,
			Slice: partition.PodSlice(partition.System, v1.PodQOSGuaranteed, uid),
		},
		report.Pod{
			Namespace: "kube-system", Name: "job", QoS: v1.PodQOSBestEffort, Member: true, Containers: 2, Misplaced: 2,
			Slice: partition.PodSlice(partition.Default, v1.PodQOSBestEffort, uid), Reason: report.RestartPolicy, Next: "wait for its end",
		},
		report.Pod{
			Namespace: "web", Name: "shop", QoS: v1.PodQOSBurstable, Containers: 1, Slice: partition.PodSlice(partition.Default, v1.PodQOSBurstable, uid),
		},
	)
	limit := uint64(512 << 20)
	s.Partitions = []state.Partition{{
		Name: partition.System, Slice: partition.System.Slice(), Types: []string{"infra", "management"},
		Namespaces: []string{"kube-system", "monitoring"}, MemoryBytes: 100<<20 + 1, LimitBytes: &limit, CPUs: "0-1,3", CPUWeight: 79,
	}}
	s.NodeResource = map[string]int64{"management": 4000, "infra": 4000}
	s.Problem = "config.yaml: memoryLimit: x\nconfig.yaml: cpuset: y"
	const want = `Partition   kubepods-system.slice
Types       infra, management
Namespaces  kube-system, monitoring
Memory      100Mi of 512Mi
CPUs        0-1,3
CPU weight  79
On the Node infra.workload.openshift.io/cores 4000, management.workload.openshift.io/cores 4000
Service     ready
Problem     config.yaml: memoryLimit: x; config.yaml: cpuset: y
Misplaced   1 of 3 pods

NAMESPACE    POD   QOS         MEMBER  PARTITION  CONTAINERS  MISPLACED  WHY
kube-system  etcd  Guaranteed  yes     system     1           0          moved live, 3Mi stayed outside
kube-system  job   BestEffort  yes     default    2           2          restart-policy: wait for its end
web          shop  Burstable   no      default    1           0          -
`
	if got := table(t, s); got != want {
		t.Errorf("got\n%s; want\n%s", got, want)
	}
}

func TestTableWithoutPartition(t *testing.T) {
	t.Parallel()
	s := reportOf()
	s.Service = "not running"
	const want = `Partition   none is active
Service     not running

NAMESPACE  POD  QOS  MEMBER  PARTITION  CONTAINERS  MISPLACED  WHY
`
	if got := table(t, s); got != want {
		t.Errorf("got\n%s; want\n%s", got, want)
	}
	s.Partitions = []state.Partition{{Namespaces: []string{"kube-system"}}}
	if got := table(t, s); !strings.Contains(got, "Memory      0 of no limit\n") || strings.Contains(got, "CPUs") {
		t.Errorf("without a limit:\n%s", got)
	}
	s.Partitions[0].SwapBytes, s.Partitions[0].LowBytes = 3<<20, 64<<20
	if got := table(t, s); !strings.Contains(got, "Swap        3Mi\nProtected   0 always, 64Mi if possible\n") {
		t.Errorf("with swap and a floor:\n%s", got)
	}
	s.Outlived = []report.Outlived{{Slice: "kubepods-system-pod1.slice", Scope: "crio-2.scope"}}
	const outlived = "Service     not running\nOutlived    crio-2.scope in kubepods-system-pod1.slice: its processes have outlived their pod\n\n"
	if got := table(t, s); !strings.Contains(got, outlived) {
		t.Errorf("with processes that have outlived their pod:\n%s", got)
	}
}

// hostile lists texts that a name, a message or a file could contain.
var hostile = []string{"</script><b>", `"quotes"\`, "a b", "caf\u00e9 \u202e\u2028", "%s%n", strings.Repeat("x", 300), "\xff\xfe", "\x1b[31mred", "a\tb\nc", "\x00"}

// TestJSON: whatever a name contains, the output is one JSON document with that name.
func TestJSON(t *testing.T) {
	t.Parallel()
	for _, name := range hostile {
		s := reportOf(report.Pod{
			Namespace: name, Name: name, UID: name, Slice: "kubepods-system-pod" + name + ".slice", Reason: report.Reason(name), Next: name,
		})
		s.Service, s.Problem = name, name
		var out bytes.Buffer
		if err := WriteJSON(&out, s); err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if !utf8.Valid(out.Bytes()) || strings.ContainsAny(out.String(), "\x1b\x00\t") {
			t.Errorf("%q: control characters in\n%s", name, out.String())
		}
		var back state.Status
		decoder := json.NewDecoder(&out)
		if err := decoder.Decode(&back); err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		want := strings.ToValidUTF8(name, "\ufffd")
		if name == "\xff\xfe" {
			want = "\ufffd\ufffd" // one for each byte
		}
		if pod := back.Pods[0]; pod.Name != want || pod.Namespace != want || pod.Next != want || back.Problem != want {
			t.Errorf("%q: %+v, problem %q", name, pod, back.Problem)
		}
		if decoder.More() {
			t.Errorf("%q: more than one document", name)
		}
	}
}

// TestJSONFields: scripts depend on the names of the fields.
func TestJSONFields(t *testing.T) {
	t.Parallel()
	limit := uint64(1)
	asks := &report.Workload{Type: "a", By: partition.ByNamespace, Refused: partition.Forbidden, MilliCPU: 1, Flaw: "flaw"}
	s := reportOf(report.Pod{Reason: report.Pending, Next: "it is moved next", Workload: asks})
	s.Partitions = []state.Partition{{LimitBytes: &limit, CPUs: "0", UsedBytes: 1, UsedPeakBytes: 2, Types: []string{"a"}, Exclusive: true}}
	s.Problem, s.NodeResource = "problem", map[string]int64{"a": 2000}
	var out bytes.Buffer
	if err := WriteJSON(&out, s); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Partitions []map[string]any `json:"partitions"`
		Pods       []map[string]any `json:"pods"`
	}
	all := map[string]any{}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	asksAs, _ := got.Pods[0]["workload"].(map[string]any)
	for _, check := range []struct {
		got  map[string]any
		want []string
	}{
		// Eviction has a test of its own.
		{all, []string{"partitions", "problem", "service", "time", "pods", "nodeResource"}},
		{got.Partitions[0], []string{
			"name", "slice", "namespaces", "memoryBytes", "limitBytes", "cpuset", "cpuWeight", "usedBytes", "usedPeakBytes",
			"types", "exclusive",
		}},
		{got.Pods[0], []string{
			"namespace", "name", "uid", "qosClass", "member", "partition", "slice", "containers", "misplaced", "liveMoved", "outsideBytes", "reason", "next",
			"workload",
		}},
		{asksAs, []string{"type", "by", "refused", "milliCPU", "flaw"}},
	} {
		for _, field := range check.want {
			if _, ok := check.got[field]; !ok {
				t.Errorf("no field %s in %v", field, check.got)
			}
		}
		if len(check.got) != len(check.want) {
			t.Errorf("fields %v; want %v", check.got, check.want)
		}
	}
}

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

func TestEvictionTable(t *testing.T) {
	t.Parallel()
	const (
		head = `Partition   kubepods-system.slice
Namespaces  kube-system
Memory      490Mi of 512Mi
CPU weight  79
Service     ready
`
		pods = `
NAMESPACE  POD  QOS  MEMBER  PARTITION  CONTAINERS  MISPLACED  WHY
`
		want = `
Eviction    on, 22Mi available, evicts below 32Mi, or below 64Mi for 1m30s: 10Mi beyond the hard threshold; BELOW THE hard THRESHOLD NOW
            requests and priorities are estimated: the kubelet serves no Pods API

EVICTION ORDER        NAMESPACE    POD    PRIORITY    WORKING SET  REQUESTS
never: static         kube-system  etcd   0           300Mi        100Mi
next                  kube-system  dns-1  -5          80Mi         70Mi
2.                    monitoring   agent  2000000000  10Mi         20Mi
never: node-critical  kube-system  proxy  2000001000  5Mi          0

EVICTED               NAMESPACE    POD      THRESHOLD  METHOD   USED   REQUESTED  REMARKS
2026-07-01T12:01:00Z  kube-system  one      hard       evict    130Mi  70Mi       -
2026-07-01T12:02:00Z  kube-system  two      hard       restart  130Mi  70Mi       -
2026-07-01T12:03:00Z  kube-system  refused  hard       restart  130Mi  70Mi       not tried again: not allowed
2026-07-01T12:04:00Z  kube-system  dry      hard       evict    130Mi  70Mi       dry run
2026-07-01T12:05:00Z  kube-system  five     hard       evict    130Mi  70Mi       -
2026-07-01T12:06:00Z  kube-system  now      soft       evict    130Mi  70Mi       under way
`
	)
	s := guardedStatus()
	if got := table(t, s); got != head+want+pods {
		t.Errorf("got\n%s; want\n%s", got, head+want+pods)
	}
	// Statuses with less to show.
	for name, test := range map[string]struct {
		eviction *state.Eviction
		want     string
	}{
		"no partition": {nil, ""},
		"off":          {&state.Eviction{Mode: "off", AvailableBytes: 1}, "\nEviction    off\n"},
		"calm":         {&state.Eviction{Mode: "on", AvailableBytes: 300 << 20, HardBytes: 32 << 20}, "\nEviction    on, 300Mi available, evicts below 32Mi: 268Mi until an eviction\n"},
		"soft": {
			&state.Eviction{Mode: "on", AvailableBytes: 300 << 20, HardBytes: 32 << 20, SoftBytes: 64 << 20, SoftGrace: time.Minute},
			"\nEviction    on, 300Mi available, evicts below 32Mi, or below 64Mi for 1m0s: 236Mi until the soft threshold, 268Mi until an eviction at once\n",
		},
		"dry run": {&state.Eviction{Mode: "dry-run", AvailableBytes: 300 << 20, HardBytes: 32 << 20}, "\nEviction    dry-run, 300Mi available, evicts below 32Mi: 268Mi until an eviction\n"},
	} {
		s.Partitions[0].Eviction = test.eviction
		if got := table(t, s); got != head+test.want+pods {
			t.Errorf("%s: got\n%s; want\n%s", name, got, head+test.want+pods)
		}
	}
}

// TestEvictionTableHostile: names and messages come from other programs, and may contain anything.
func TestEvictionTableHostile(t *testing.T) {
	t.Parallel()
	for _, name := range hostile {
		s := guardedStatus()
		s.Partitions[0].Eviction.Order = []state.Candidate{{Namespace: name, Name: name}}
		e := evict.Eviction{PodMeta: evict.PodMeta{Namespace: name, Name: name}, Problem: name}
		s.Partitions[0].Eviction.Last, s.Partitions[0].Eviction.Open = []evict.Eviction{e}, []evict.Eviction{e}
		text := table(t, s)
		for _, r := range text {
			if r != '\n' && unicode.IsControl(r) {
				t.Errorf("%q: a control character in\n%q", name, text)
			}
		}
		if lines := strings.Count(text, "\n"); lines != 17 {
			t.Errorf("%q: %d lines:\n%s", name, lines, text)
		}
		var out bytes.Buffer
		if err := WriteJSON(&out, s); err != nil || !json.Valid(out.Bytes()) || strings.ContainsAny(out.String(), "\x1b\x00\t") {
			t.Errorf("%q: %v\n%s", name, err, &out)
		}
	}
}

// TestEvictionJSONFields: scripts depend on the names of the fields.
func TestEvictionJSONFields(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := WriteJSON(&out, guardedStatus()); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Partitions []struct {
			Eviction map[string]any `json:"eviction"`
		} `json:"partitions"`
		Parts struct {
			Order []map[string]any `json:"order"`
			Open  []map[string]any `json:"open"`
		} `json:"-"`
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	eviction := got.Partitions[0].Eviction
	part, err := json.Marshal(eviction)
	if err == nil {
		err = json.Unmarshal(part, &got.Parts)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range []struct {
		got  map[string]any
		want []string
	}{
		{eviction, []string{
			"mode", "availableBytes", "workingSetBytes", "ownerlessBytes", "hardBytes", "softBytes", "softGrace", "crossed", "estimated", "order", "open", "last",
		}},
		{got.Parts.Order[0], []string{"namespace", "name", "uid", "priority", "workingSetBytes", "requestBytes", "estimated", "skip"}},
		{got.Parts.Open[0], []string{
			"uid", "namespace", "name", "qosClass", "owner", "cgroup", "priority", "time", "threshold", "method", "availableBytes", "thresholdBytes", "limitBytes",
			"workingSetBytes", "requestBytes", "usedBytes", "partitionBytes", "containers",
		}},
	} {
		for _, field := range check.want {
			if _, ok := check.got[field]; !ok {
				t.Errorf("no field %s in %v", field, check.got)
			}
		}
		if len(check.got) != len(check.want) {
			t.Errorf("fields %v; want %v", check.got, check.want)
		}
	}
	if eviction["mode"] != "on" || eviction["hardBytes"] != float64(32<<20) || eviction["softGrace"] != float64(90*time.Second) {
		t.Errorf("%v", eviction)
	}
	// A partition whose state of evictions could not be read has no field eviction.
	s := guardedStatus()
	s.Partitions[0].Eviction = nil
	out.Reset()
	if err := WriteJSON(&out, s); err != nil || strings.Contains(out.String(), "eviction") {
		t.Errorf("%v: without evictions\n%s", err, &out)
	}
}
