package status

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/output"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/podmove/report"
	"node-partition.io/node-partition/tests/fakenode"
)

// evictionsFile holds the evictions of the system partition.
const evictionsFile = "/run/node-partition/monitor/evictions.json"

// option changes the options as a flag does.
type option func(*node.Options)

// shown returns the status of a node, as it is written in JSON, and the table.
func shown(t *testing.T, n *fakenode.Node, flags ...option) (s state.Status, table string) {
	t.Helper()
	o := n.Options()
	for _, set := range flags {
		set(&o)
	}
	read, err := Read(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var text, rows bytes.Buffer
	if err := errors.Join(output.JSON(&text, read), Table(false)(&rows, read), json.Unmarshal(text.Bytes(), &s)); err != nil {
		t.Fatalf("%v:\n%s", err, &text)
	}
	return s, strings.ReplaceAll(rows.String(), n.Root, "")
}

// TestStatusNode: status reads the node itself, and changes nothing.
func TestStatusNode(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Valid("kube-system"))
	n.Partition("67108864")
	const (
		id        = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
		burstable = "/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod11111111_2222_3333_4444_555555555555.slice"
	)
	n.Write(burstable+"/memory.max", "max")
	n.Write(burstable+"/cri-containerd-"+id+".scope/cpu.weight", "39")
	n.Serve(&fakenode.Runtime{
		Sandboxes: []*runtime.PodSandbox{{Id: "s", Metadata: &runtime.PodSandboxMetadata{Name: "dns", Namespace: "kube-system", Uid: fakenode.UID}}},
		Containers: []*runtime.Container{{
			Id: id, PodSandboxId: "s", State: runtime.ContainerState_CONTAINER_RUNNING, Metadata: &runtime.ContainerMetadata{Name: "dns"},
		}},
	})
	n.Listen("/run/nri/nri.sock")
	s, _ := shown(t, n)
	if len(s.Pods) != 1 {
		t.Fatalf("%+v", s)
	}
	// Without the Pods API it is unknown whether the kubelet would start the container again.
	pod := s.Pods[0]
	if !pod.Member || pod.Partition() != partition.Default || pod.Containers != 1 || pod.Misplaced != 1 || pod.Reason != report.UnknownPolicy {
		t.Errorf("%+v", pod)
	}
	if p := s.Partitions[0]; p.Name != partition.System || p.MemoryBytes != 1<<20 || p.LimitBytes == nil || *p.LimitBytes != 64<<20 || p.CPUWeight != 79 || !slices.Equal(p.Namespaces, []string{"kube-system"}) {
		t.Errorf("%+v", p)
	}
	if _, err := os.Stat(n.Root + node.StateDir); err == nil {
		t.Errorf("status has made %s", node.StateDir)
	}
	// With --move, status shows the effect of that mode.
	_, stdout := shown(t, n, func(o *node.Options) { o.Mode = podmove.Never })
	if !strings.Contains(stdout, "forbidden: partition-monitor move kube-system/dns, or delete the pod") {
		t.Errorf("%s", stdout)
	}
}

// TestStatusWithoutLimit: without a limit, status reports that no pod is evicted.
func TestStatusWithoutLimit(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Configuration("systemPartition:\n  namespaces: [kube-system]\n"))
	n.Partition("max")
	n.Write(fakenode.SystemCgroup+"/memory.current", "94371840")
	n.Write(fakenode.SystemCgroup+"/memory.stat", "inactive_file 0\nactive_file 0\nslab_reclaimable 0")
	n.Serve(&fakenode.Runtime{})
	s, stdout := shown(t, n)
	e := s.Partitions[0].Eviction
	if e == nil || !e.NoLimit || e.AvailableBytes != 0 || e.HardBytes != 0 || e.Crossed != "" {
		t.Fatalf("%+v", e)
	}
	if !strings.Contains(stdout, "without a memory limit: the partition only sets CPU weights and reports usage") {
		t.Errorf("%s", stdout)
	}
	if p := s.Partitions[0]; p.UsedBytes != 90<<20 || p.UsedPeakBytes != 0 || !strings.Contains(stdout, "  Memory      90Mi used\n") {
		t.Errorf("%+v:\n%s", p, stdout)
	}
}

// TestStatusWithoutRuntime: the partition and its eviction are shown, and why the pods are not.
func TestStatusWithoutRuntime(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Valid("kube-system"))
	n.Partition("67108864")
	n.Write(fakenode.SystemCgroup+"/memory.stat", "inactive_file 0\nactive_file 0\nslab_reclaimable 0")
	s, stdout := shown(t, n)
	if len(s.Partitions) != 1 || s.Partitions[0].Eviction == nil || len(s.Pods) != 0 || !strings.Contains(s.PodsUnknown, "no socket at /run/containerd/containerd.sock") {
		t.Errorf("%+v", s)
	}
	if !strings.Contains(stdout, "Pods          not shown: container runtime: no socket at ") || strings.Contains(stdout, "NAMESPACE") {
		t.Errorf("%s", stdout)
	}
}

// TestStatusDisconnects: a reading leaves no connection to the runtime: Watch reads all the time.
func TestStatusDisconnects(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Valid("kube-system"))
	n.Partition("67108864")
	n.Serve(&fakenode.Runtime{})
	const connected = "03" // SS_CONNECTED, include/uapi/linux/net.h
	for begin := time.Now(); ; {
		if s, _ := shown(t, n); s.PodsUnknown != "" {
			t.Fatal(s.PodsUnknown)
		}
		sockets, err := os.ReadFile("/proc/net/unix")
		if err != nil {
			t.Fatal(err)
		}
		open := 0
		for line := range strings.Lines(string(sockets)) {
			if fields := strings.Fields(line); strings.HasPrefix(fields[len(fields)-1], n.Root) && fields[5] == connected {
				open++
			}
		}
		if open == 0 {
			return // the server has seen the end of all of them
		}
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("%d connections stay open", open)
		}
	}
}

// TestStatusUsed: the present usage is read, and the service answers what was used in the last
// minutes. Page cache does not count.
func TestStatusUsed(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Valid("kube-system"))
	n.Partition("134217728")
	n.Write(fakenode.SystemCgroup+"/memory.current", "94371840")
	n.Write(fakenode.SystemCgroup+"/memory.stat", "inactive_file 10485760\nactive_file 20971520\nslab_reclaimable 0")
	n.Serve(&fakenode.Runtime{})
	for name, test := range map[string]struct {
		found string
		peak  uint64
		line  string
	}{
		"higher before": {
			`{"partitions":[{"name":"batch","usedPeakBytes":1},{"name":"system","usedBytes":1,"usedPeakBytes":115343360}]}`,
			110 << 20, "60Mi used of 128Mi, 110Mi at most in 5 minutes, and 30Mi of page cache\n",
		},
		"highest now":           {`{"partitions":[{"name":"system","usedPeakBytes":1}]}`, 60 << 20, "60Mi used of 128Mi, 60Mi at most in 5 minutes, and 30Mi of page cache\n"},
		"not polled yet":        {`{"partitions":[]}`, 0, "60Mi used of 128Mi, and 30Mi of page cache\n"},
		"an older service":      {`{"pods":[]}`, 0, "60Mi used of 128Mi, and 30Mi of page cache\n"},
		"another program there": {`welcome`, 0, "60Mi used of 128Mi, and 30Mi of page cache\n"},
	} {
		end := n.MonitorServes(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/report" {
				http.NotFound(w, r)
				return
			}
			_, _ = io.WriteString(w, test.found) // fails if the client has disconnected
		})
		s, stdout := shown(t, n, func(*node.Options) {})
		end()
		if p := s.Partitions[0]; p.UsedBytes != 60<<20 || p.UsedPeakBytes != test.peak || !strings.Contains(stdout, "\n  Memory      "+test.line) {
			t.Errorf("%s: %+v; want %d, %q:\n%s", name, p, test.peak, test.line, stdout)
		}
	}
}

// TestStatusEviction: status ranks the pods as the service would, and evicts none.
func TestStatusEviction(t *testing.T) {
	t.Parallel()
	n := fakenode.Guarded(t)
	n.TellPods()
	n.Write(fakenode.SystemCgroup+"/memory.current", fakenode.Scarce)
	s, _ := shown(t, n)
	e := s.Partitions[0].Eviction
	if e == nil || e.Mode != "on" || e.AvailableBytes != 10<<20 || e.WorkingSetBytes != 89<<20 || e.HardBytes != 32<<20 || e.SoftBytes != 0 || e.Crossed != evict.Hard || e.Estimated {
		t.Fatalf("%+v", e)
	}
	if e.Open == nil || e.Last == nil || len(e.Open)+len(e.Last) > 0 {
		t.Errorf("open %v, last %v; want [] and not null", e.Open, e.Last)
	}
	// etcd exceeds its request by more, and has a higher priority. No pod outside the partition is in
	// the list.
	want := []state.Candidate{
		{Namespace: "kube-system", Name: "dns", UID: fakenode.UID, Priority: 10, WorkingSetBytes: 30 << 20, RequestBytes: 10 << 20},
		{Namespace: "kube-system", Name: "etcd", UID: fakenode.Pods[1].UID, Priority: 2_000_001_000, WorkingSetBytes: 32 << 20, RequestBytes: 1 << 20, Skip: evict.SkipStatic},
	}
	if !slices.Equal(e.Order, want) {
		t.Errorf("%+v; want %+v", e.Order, want)
	}
	if killed := n.Killed(); len(killed) > 0 {
		t.Errorf("status has killed %v", killed)
	}
	if _, err := os.Stat(n.Root + evictionsFile); err == nil {
		t.Error("status has written evictions.json")
	}
	// With flags, status shows their effect.
	protect := func(text string) option {
		protected, err := evict.ParseProtected(text)
		if err != nil {
			t.Fatal(err)
		}
		return func(o *node.Options) { o.Eviction.Protected = protected }
	}
	for name, test := range map[string]struct {
		set   option
		parts []string
	}{
		"--eviction=off":                          {func(o *node.Options) { o.Eviction.Off = true }, []string{"  Evicts      off\n", " -     in place"}},
		"--eviction=dry-run":                      {func(o *node.Options) { o.Eviction.DryRun = true }, []string{"  Evicts      below 32Mi available, NOW by 22Mi; dry-run\n"}},
		"--eviction-protect=none":                 {protect("none"), []string{"32Mi  1Mi      2. "}},
		"--eviction-protect=node-critical":        {protect("node-critical"), []string{"etcd       32Mi  1Mi      never: node-critical  in place"}},
		"--eviction-protect=static,node-critical": {protect("static,node-critical"), []string{"etcd       32Mi  1Mi      never: static  in place", "dns        30Mi  10Mi     next "}},
	} {
		_, table := shown(t, n, test.set)
		for _, part := range test.parts {
			if !strings.Contains(table, part) {
				t.Errorf("%s: want %q in\n%s", name, part, table)
			}
		}
	}
}

// TestStatusEvictionEstimated: without the kubelet, requests and priorities are estimates, and
// status reports that.
func TestStatusEvictionEstimated(t *testing.T) {
	t.Parallel()
	n := fakenode.Guarded(t)
	s, stdout := shown(t, n)
	for i := range s.Partitions {
		if of := s.Partitions[i].Eviction; of != nil && of.OwnerlessBytes > 0 && !strings.Contains(stdout, "belong to no pod that runs in it") {
			t.Errorf("%d bytes of no pod are not in\n%s", of.OwnerlessBytes, stdout)
		}
	}
	for _, part := range []string{"              requests and priorities are estimated: the kubelet serves no Pods API\n", " next ", " never: static "} {
		if !strings.Contains(stdout, part) {
			t.Errorf("want %q in\n%s", part, stdout)
		}
	}
	if strings.Contains(stdout, "shop") || !strings.Contains(stdout, "1 more on the node: --all\n") {
		t.Errorf("a pod of no partition is listed:\n%s", stdout)
	}
}

// TestStatusBrokenEvictionsFile: status names an invalid state file and the remedy, and shows the
// rest.
func TestStatusBrokenEvictionsFile(t *testing.T) {
	t.Parallel()
	n := fakenode.Guarded(t)
	n.TellPods()
	for _, text := range []string{"", "{", `{"last": 1}`, "\x00"} {
		n.Write(evictionsFile, text)
		_, stdout := shown(t, n)
		for _, part := range []string{"Problem       state of evictions: " + evictionsFile, "; remove it\n", "kube-system  dns"} {
			if !strings.Contains(stdout, part) {
				t.Errorf("want %q in\n%s", part, stdout)
			}
		}
	}
	n.Write(evictionsFile, `{"version":1,"partition":"system"}`)
	if s, _ := shown(t, n); s.Partitions[0].Eviction == nil || len(s.Partitions[0].Eviction.Last) > 0 {
		t.Errorf("%+v", s.Partitions)
	}
}

// TestStatusWithoutPartition: without a partition, status has no section about eviction.
func TestStatusWithoutPartition(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Configuration(""))
	n.Serve(&fakenode.Runtime{})
	n.ServePods()
	n.Write(evictionsFile, "{") // left by an earlier partition
	_, stdout := shown(t, n)
	if strings.Contains(stdout, "Evicts") || !strings.Contains(stdout, "Partition     none") {
		t.Errorf("%s", stdout)
	}
	if s, _ := shown(t, n); s.Partitions == nil || len(s.Partitions) > 0 {
		t.Errorf("%+v", s)
	}
}
