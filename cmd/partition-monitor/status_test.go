package main

import (
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"nodepartition/internal/monitor/control"
	"nodepartition/internal/monitor/node"
	"nodepartition/internal/monitor/status"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/podmove"
)

const uid = "11111111-2222-3333-4444-555555555555"

// TestStatusNode: status reads the node itself, and changes nothing.
func TestStatusNode(t *testing.T) {
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
	// Without the Pods API it is unknown whether the kubelet would start the container again.
	pod := s.Pods[0]
	if !pod.Member || pod.Partition() != unitname.Default || pod.Containers != 1 || pod.Misplaced != 1 || pod.Reason != podmove.ReasonUnknownPolicy {
		t.Errorf("%+v", pod)
	}
	if p := s.Partition; p.MemoryBytes != 1<<20 || p.LimitBytes == nil || *p.LimitBytes != 64<<20 || p.CPUWeight != 79 || !slices.Equal(p.Namespaces, []string{"kube-system"}) {
		t.Errorf("%+v", p)
	}
	for _, path := range []string{node.MembersFile, "/run/node-partition"} {
		if _, err := os.Stat(n.root + path); err == nil {
			t.Errorf("status has made %s", path)
		}
	}
	// With --move, status shows the effect of that mode.
	status, stdout, stderr := n.run("status", "--listen=", "--move=never")
	if status != exitOK || stderr != "" || !strings.Contains(stdout, "forbidden: partition-monitor move kube-system/dns, or delete the pod") {
		t.Errorf("status %d, %q:\n%s", status, stderr, stdout)
	}
}

// TestStatusWithoutLimit: without a limit, status reports that no pod is evicted.
func TestStatusWithoutLimit(t *testing.T) {
	t.Parallel()
	n := newNode(t, kubelet("systemPartition:\n  namespaces: [kube-system]\n"))
	n.partition("max")
	n.write(systemCgroup+"/memory.current", "94371840")
	n.write(systemCgroup+"/memory.stat", "inactive_file 0\nactive_file 0\nslab_reclaimable 0")
	n.serve(&fakeRuntime{})
	e := n.status().Eviction
	if e == nil || !e.NoLimit || e.AvailableBytes != 0 || e.HardBytes != 0 || e.Crossed != "" {
		t.Fatalf("%+v", e)
	}
	status, stdout, _ := n.run("status")
	if status != exitOK || !strings.Contains(stdout, "without a memory limit: the partition measures and weighs, and evicts no pod") {
		t.Errorf("status %d:\n%s", status, stdout)
	}
}

// TestStatusEviction: status ranks the pods as the service would, and evicts none.
func TestStatusEviction(t *testing.T) {
	t.Parallel()
	n := guarded(t)
	n.tellPods()
	n.write(systemCgroup+"/memory.current", scarce)
	e := n.status().Eviction
	if e == nil || e.Mode != "on" || e.AvailableBytes != 10<<20 || e.WorkingSetBytes != 89<<20 || e.HardBytes != 32<<20 || e.SoftBytes != 0 || e.Crossed != evict.Hard || e.Estimated {
		t.Fatalf("%+v", e)
	}
	if e.Open == nil || e.Last == nil || len(e.Open)+len(e.Last) > 0 {
		t.Errorf("open %v, last %v; want [] and not null", e.Open, e.Last)
	}
	// etcd exceeds its request by more, and has a higher priority. No pod outside the partition is in
	// the list.
	want := []status.Candidate{
		{Namespace: "kube-system", Name: "dns", UID: uid, Priority: 10, WorkingSetBytes: 30 << 20, RequestBytes: 10 << 20},
		{Namespace: "kube-system", Name: "etcd", UID: nodePods[1].uid, Priority: 2_000_001_000, WorkingSetBytes: 32 << 20, RequestBytes: 1 << 20, Skip: evict.SkipStatic},
	}
	if !slices.Equal(e.Order, want) {
		t.Errorf("%+v; want %+v", e.Order, want)
	}
	if killed := n.killed(); len(killed) > 0 {
		t.Errorf("status has killed %v", killed)
	}
	if _, err := os.Stat(n.root + node.EvictionsFile); err == nil {
		t.Error("status has written evictions.json")
	}
	// With flags, status shows their effect.
	for flag, parts := range map[string][]string{
		"--eviction=off":                          {"Eviction    off\n"},
		"--eviction=dry-run":                      {"Eviction    dry-run, 10Mi available"},
		"--eviction-protect=none":                 {"2.              kube-system  etcd"},
		"--eviction-protect=node-critical":        {"never: node-critical  kube-system  etcd"},
		"--eviction-protect=static,node-critical": {"never: static   kube-system  etcd", "next            kube-system  dns"},
	} {
		status, stdout, stderr := n.run("status", "--listen=", flag)
		for _, part := range parts {
			if status != exitOK || stderr != "" || !strings.Contains(stdout, part) {
				t.Errorf("%s: status %d, %q; want %q in\n%s", flag, status, stderr, part, stdout)
			}
		}
	}
}

// TestStatusEvictionEstimated: without the kubelet, requests and priorities are estimates, and
// status reports that.
func TestStatusEvictionEstimated(t *testing.T) {
	t.Parallel()
	n := guarded(t)
	status, stdout, stderr := n.run("status", "--listen=")
	for _, part := range []string{"requests and priorities are estimated: the kubelet serves no Pods API", "next            kube-system  dns ", "never: static   kube-system  etcd "} {
		if status != exitOK || stderr != "" || !strings.Contains(stdout, part) {
			t.Errorf("status %d, %q; want %q in\n%s", status, stderr, part, stdout)
		}
	}
	if _, table, _ := strings.Cut(stdout, "EVICTION ORDER"); strings.Contains(table, "shop") || strings.Contains(table, "misplaced") {
		t.Errorf("a pod outside the partition is in the order:\n%s", stdout)
	}
}

// TestStatusBrokenEvictionsFile: status names an invalid state file and the remedy, and shows the
// rest.
func TestStatusBrokenEvictionsFile(t *testing.T) {
	t.Parallel()
	n := guarded(t)
	n.tellPods()
	for _, text := range []string{"", "{", `{"last": 1}`, "\x00"} {
		n.write(node.EvictionsFile, text)
		status, stdout, stderr := n.run("status", "--listen=")
		for _, part := range []string{"Problem     state of evictions: " + node.EvictionsFile, "; remove it\n", "kube-system  dns"} {
			if status != exitOK || stderr != "" || !strings.Contains(stdout, part) {
				t.Errorf("status %d, %q; want %q in\n%s", status, stderr, part, stdout)
			}
		}
	}
	n.write(node.EvictionsFile, "{}")
	if e := n.status().Eviction; e == nil || len(e.Last) > 0 {
		t.Errorf("%+v", e)
	}
}

// TestStatusWithoutPartition: without a partition, status has no section about eviction.
func TestStatusWithoutPartition(t *testing.T) {
	t.Parallel()
	n := newNode(t, kubelet(""))
	n.serve(&fakeRuntime{})
	n.servePods()
	n.write(node.EvictionsFile, "{") // left by an earlier partition
	status, stdout, stderr := n.run("status", "--listen=")
	if status != exitOK || stderr != "" || strings.Contains(stdout, "Eviction") || !strings.Contains(stdout, "Partition   none") {
		t.Errorf("status %d, %q:\n%s", status, stderr, stdout)
	}
	if s := n.status(); s.Eviction != nil || s.Partition != nil {
		t.Errorf("%+v", s)
	}
}

// TestStatusWait: status --wait ends with an error when its time is over, and with the status when
// the service answers that it is ready.
func TestStatusWait(t *testing.T) {
	t.Parallel()
	n := newNode(t, valid("kube-system"))
	n.partition("67108864")
	n.serve(&fakeRuntime{})
	n.oneProblem([]string{"not ready after 100ms: ", "--listen has no address"}, "status", "--wait", "--timeout=100ms", "--listen=")
	listener := n.listen(control.Socket)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ready" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		_, _ = io.WriteString(w, "ready")
	})}
	go func() { _ = server.Serve(listener) }() // it ends with Close
	t.Cleanup(func() { _ = server.Close() })
	status, stdout, stderr := n.run("status", "--wait", "--listen=")
	if status != exitOK || stderr != "" || !strings.Contains(stdout, "Partition   kubepods-system.slice") {
		t.Errorf("status %d, %q:\n%s", status, stderr, stdout)
	}
}
