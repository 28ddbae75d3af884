package main

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"nodepartition/pkg/podmove"
)

const uid = "11111111-2222-3333-4444-555555555555"

func reportOf(pods ...podmove.PodReport) nodeStatus {
	return nodeStatus{Service: "ready", Report: podmove.Report{Pods: pods}}
}

func table(t *testing.T, s nodeStatus) string {
	t.Helper()
	var out bytes.Buffer
	if err := writeTable(&out, s); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTable(t *testing.T) {
	t.Parallel()
	s := reportOf(
		podmove.PodReport{
			Namespace: "kube-system", Name: "etcd", QoS: podmove.Guaranteed, Member: true, Containers: 1, LiveMoved: 1, OutsideBytes: 3 << 20,
			Slice: podmove.PodSlice(podmove.System, podmove.Guaranteed, uid),
		},
		podmove.PodReport{
			Namespace: "kube-system", Name: "job", QoS: podmove.BestEffort, Member: true, Containers: 2, Misplaced: 2,
			Slice: podmove.PodSlice(podmove.Default, podmove.BestEffort, uid), Reason: podmove.ReasonRestartPolicy, Next: "wait for its end",
		},
		podmove.PodReport{
			Namespace: "web", Name: "shop", QoS: podmove.Burstable, Containers: 1, Slice: podmove.PodSlice(podmove.Default, podmove.Burstable, uid),
		},
	)
	limit := uint64(512 << 20)
	s.Partition = &partitionStatus{
		Namespaces: []string{"kube-system", "monitoring"}, MemoryBytes: 100<<20 + 1, LimitBytes: &limit, CPUs: "0-1,3", CPUWeight: 79,
	}
	s.Problem = "config.yaml: memoryLimit: x\nconfig.yaml: cpuset: y"
	const want = `Partition   kubepods-system.slice
Namespaces  kube-system, monitoring
Memory      100Mi of 512Mi
CPUs        0-1,3
CPU weight  79
Service     ready
Problem     config.yaml: memoryLimit: x; config.yaml: cpuset: y

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
	const want = `Partition   none: kubepods-system.slice does not run
Service     not running

NAMESPACE  POD  QOS  MEMBER  PARTITION  CONTAINERS  MISPLACED  WHY
`
	if got := table(t, s); got != want {
		t.Errorf("got\n%s; want\n%s", got, want)
	}
	s.Partition = &partitionStatus{Namespaces: []string{"kube-system"}}
	if got := table(t, s); !strings.Contains(got, "Memory      0 of no limit\n") || strings.Contains(got, "CPUs") {
		t.Errorf("without a limit:\n%s", got)
	}
}

// hostile are texts that a name, a message or a file could hold.
var hostile = []string{"</script><b>", `"quotes"\`, "a b", "caf\u00e9 \u202e\u2028", "%s%n", strings.Repeat("x", 300), "\xff\xfe", "\x1b[31mred", "a\tb\nc", "\x00"}

// JSON is for scripts: whatever a name holds, it is one document, and says the same name.
func TestJSON(t *testing.T) {
	t.Parallel()
	for _, name := range hostile {
		s := reportOf(podmove.PodReport{
			Namespace: name, Name: name, UID: name, Slice: "kubepods-system-pod" + name + ".slice", Reason: podmove.Reason(name), Next: name,
		})
		s.Service, s.Problem = name, name
		var out bytes.Buffer
		if err := writeJSON(&out, s); err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if !utf8.Valid(out.Bytes()) || strings.ContainsAny(out.String(), "\x1b\x00\t") {
			t.Errorf("%q: control characters in\n%s", name, out.String())
		}
		var back nodeStatus
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

// The names of the fields are what scripts go by.
func TestJSONFields(t *testing.T) {
	t.Parallel()
	limit := uint64(1)
	s := reportOf(podmove.PodReport{Reason: podmove.ReasonPending, Next: "it is moved next"})
	s.Partition, s.Problem = &partitionStatus{LimitBytes: &limit, CPUs: "0"}, "problem"
	var out bytes.Buffer
	if err := writeJSON(&out, s); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Partition map[string]any   `json:"partition"`
		Pods      []map[string]any `json:"pods"`
	}
	all := map[string]any{}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	for _, check := range []struct {
		got  map[string]any
		want []string
	}{
		{all, []string{"partition", "problem", "service", "time", "pods"}},
		{got.Partition, []string{"namespaces", "memoryBytes", "limitBytes", "cpuset", "cpuWeight"}},
		{got.Pods[0], []string{
			"namespace", "name", "uid", "qosClass", "member", "slice", "containers", "misplaced", "liveMoved", "outsideBytes", "reason", "next",
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
}

func TestQuantity(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[uint64]string{
		0: "0", 1: "1", 4096: "4Ki", 1<<20 - 1: "1048575", 1 << 20: "1Mi", 1<<20 + 1: "1Mi", 512 << 20: "512Mi", 1 << 40: "1048576Mi",
	} {
		if got := quantity(bytes); got != want {
			t.Errorf("%d: %s; want %s", bytes, got, want)
		}
	}
}

// status looks at the node itself and does nothing about what it finds.
func TestStatusOfNode(t *testing.T) {
	t.Parallel()
	n := newNode(t, valid("kube-system"))
	n.partition("67108864")
	const (
		id        = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
		burstable = "/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod11111111_2222_3333_4444_555555555555.slice"
	)
	n.write(burstable+"/memory.max", "max")
	n.write(burstable+"/cri-containerd-"+id+".scope/cpu.weight", "39")
	n.serve(&fakeRuntime{
		sandboxes: []*runtime.PodSandbox{{Id: "s", Metadata: &runtime.PodSandboxMetadata{Name: "dns", Namespace: "kube-system", Uid: uid}}},
		containers: []*runtime.Container{{
			Id: id, PodSandboxId: "s", State: runtime.ContainerState_CONTAINER_RUNNING, Metadata: &runtime.ContainerMetadata{Name: "dns"},
		}},
	})
	n.listen("/run/nri/nri.sock")
	s := n.status()
	if len(s.Pods) != 1 {
		t.Fatalf("%+v", s)
	}
	// No Pods API, so nobody tells whether the kubelet would start it again.
	pod := s.Pods[0]
	if !pod.Member || pod.Partition() != podmove.Default || pod.Containers != 1 || pod.Misplaced != 1 || pod.Reason != podmove.ReasonUnknownPolicy {
		t.Errorf("%+v", pod)
	}
	if p := s.Partition; p.MemoryBytes != 1<<20 || p.LimitBytes == nil || *p.LimitBytes != 64<<20 || p.CPUWeight != 79 || !slices.Equal(p.Namespaces, []string{"kube-system"}) {
		t.Errorf("%+v", p)
	}
	for _, path := range []string{membersFile, "/run/node-partition"} {
		if _, err := os.Stat(n.root + path); err == nil {
			t.Errorf("status has made %s", path)
		}
	}
	// --move says what would be done.
	status, stdout, stderr := n.run("status", "--listen=", "--move=never")
	if status != exitOK || stderr != "" || !strings.Contains(stdout, "forbidden: delete the pod") {
		t.Errorf("status %d, %q:\n%s", status, stderr, stdout)
	}
}
