package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove"
)

// TestUnlisted: a pod that runs in the partition and that no reconcile has found is a candidate,
// too. It has its name and its values if the kubelet reports them.
func TestUnlisted(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	started := func(q v1.PodQOSClass, uid, id string) {
		scope := filepath.Join(root, partition.CgroupPath(partition.PodSlice(partition.System, q, uid)), "cri-containerd-"+id+".scope")
		if err := os.MkdirAll(scope, 0o755); err != nil {
			t.Fatal(err)
		}
		// The test's own process stands for the container's, with its score.
		if err := os.WriteFile(filepath.Join(scope, "cgroup.procs"), fmt.Appendln(nil, os.Getpid()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	id := strings.Repeat("1", 64)
	started(v1.PodQOSBurstable, "11111111-2222-3333-4444-555555555555", id)
	started(v1.PodQOSBestEffort, "22222222-2222-3333-4444-555555555555", strings.Repeat("2", 64))
	found := inGuest("dns", v1.PodQOSBurstable)
	started(v1.PodQOSBurstable, found.UID, strings.Repeat("3", 64))
	// A reconcile has seen this pod before it had a slice in the partition.
	late := placed("late", v1.PodQOSBurstable, false)
	started(v1.PodQOSBurstable, late.UID, strings.Repeat("4", 64))
	// The UID of a static pod is a hash from the kubelet.
	static := "0123456789abcdef0123456789abcdef"
	started(v1.PodQOSBurstable, static, strings.Repeat("5", 64))
	known := told(&kubelet.Pod{
		UID: "11111111-2222-3333-4444-555555555555", Namespace: "kube-system", Name: "newcomer", Priority: 7, MemoryRequest: 5 * mebi, Owner: "set",
		Containers: map[string]kubelet.Container{"main": {ID: id, MemoryRequest: 5 * mebi, StaysEnded: true}},
	})
	pods := map[string]evict.Pod{}
	for _, p := range unlisted(partition.System, host.Node{Cgroups: cgroups.FS(root), Proc: "/proc"}, Candidates(partition.System, []podmove.Pod{found, late}, known, capacity), known, capacity) {
		pods[p.UID] = p
	}
	if len(pods) != 4 || !pods["uid-of-late"].Unknown {
		t.Fatalf("%+v; want the four that no pass has found there", pods)
	}
	p := pods["11111111-2222-3333-4444-555555555555"]
	if p.Unknown || p.Estimated || p.Namespace != "kube-system" || p.Name != "newcomer" || p.Priority != 7 || p.Request != 5*mebi || p.Owner != "set" ||
		!p.EndsForGood || p.QoS != v1.PodQOSBurstable || len(p.Containers) != 1 || p.Containers[0].Name != "main" {
		t.Errorf("%+v; want the values of the kubelet", p)
	}
	p = pods["22222222-2222-3333-4444-555555555555"]
	if !p.Unknown || !p.Estimated || p.Static || p.QoS != v1.PodQOSBestEffort || p.Request != 0 || p.Priority != 0 || !strings.HasPrefix(p.Cgroup, inside) {
		t.Errorf("%+v; want one that is unknown", p)
	}
	if p = pods[static]; !p.Unknown || !p.Static {
		t.Errorf("%+v; want a static pod, which is protected", p)
	}
	// Without a partition there are no pods.
	if pods := unlisted(partition.System, host.Node{Cgroups: cgroups.FS(t.TempDir()), Proc: "/proc"}, nil, nil, capacity); len(pods) != 0 {
		t.Errorf("%+v", pods)
	}
}

// TestUnlistedNested: with systemd or Docker in a container its processes are in cgroups below the
// scope, and show its score there.
func TestUnlistedNested(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	slice := partition.CgroupPath(partition.PodSlice(partition.System, v1.PodQOSBurstable, "11111111-2222-3333-4444-555555555555"))
	scope := filepath.Join(root, slice, "cri-containerd-"+strings.Repeat("1", 64)+".scope")
	leaf := filepath.Join(scope, "system.slice/a.service")
	if err := os.MkdirAll(leaf, 0o755); err != nil {
		t.Fatal(err)
	}
	for dir, procs := range map[string]string{scope: "", filepath.Dir(leaf): "", leaf: fmt.Sprintln(os.Getpid())} {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(procs), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := process(cgroups.FS(root), slice+"/"+filepath.Base(scope), maxDepth); got != fmt.Sprint(os.Getpid()) {
		t.Errorf("process %q, want %d", got, os.Getpid())
	}
	if got := process(cgroups.FS(root), slice+"/"+filepath.Base(scope), 1); got != "" {
		t.Errorf("process %q, deeper than the search goes", got)
	}
	if err := os.RemoveAll(leaf); err != nil {
		t.Fatal(err)
	}
	if got := process(cgroups.FS(root), slice+"/"+filepath.Base(scope), maxDepth); got != "" {
		t.Errorf("process %q of an empty scope", got)
	}
}
