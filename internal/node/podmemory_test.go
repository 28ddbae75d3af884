package node

import (
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove"
)

// TestMemoryForceDeleted: the kubelet drops a pod that is deleted with force at once. While its
// slice is there, its values stay those that the kubelet has reported.
func TestMemoryForceDeleted(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	db := inGuest("db", v1.PodQOSGuaranteed, cri.Resources{OOMScoreAdj: -997})
	slice := filepath.Join(root, partition.CgroupPath(db.Partitions[0].Slice))
	if err := os.MkdirAll(slice, 0o755); err != nil {
		t.Fatal(err)
	}
	reported := told(&kubelet.Pod{UID: db.UID, Name: "db", Priority: 7, MemoryRequest: 70 * mebi, Owner: "set"})
	m := PodMemory{Partition: partition.System}
	m.Note(cgroups.FS(root), []podmove.Pod{db}, reported)

	got := one(t, db, m.complete(nil, true))
	if got.Estimated || got.Priority != 7 || got.Request != 70*mebi || got.Owner != "set" || !got.Terminating {
		t.Errorf("deleted with force: %+v", got)
	}
	if got := one(t, db, m.complete(nil, false)); got.Estimated || got.Terminating {
		t.Errorf("a kubelet that has not reported yet has deleted nothing: %+v", got)
	}
	if known := m.complete(reported, true); len(known) != 1 || known[types.UID(db.UID)].Terminating {
		t.Errorf("the kubelet's own report is replaced: %+v", known)
	}

	others := told(&kubelet.Pod{UID: "other"})
	if known := m.complete(others, true); len(known) != 2 || len(others) != 1 {
		t.Errorf("complete %+v, of %+v", known, others)
	}

	// Its sandbox is gone, and a process is left.
	m.Note(cgroups.FS(root), nil, nil)
	if known := m.complete(nil, true); len(known) != 1 {
		t.Errorf("forgotten while its slice is there: %+v", known)
	}
	if err := os.RemoveAll(slice); err != nil {
		t.Fatal(err)
	}
	m.Note(cgroups.FS(root), nil, nil)
	if known := m.complete(nil, true); len(known) != 0 || len(m.pods) != 0 {
		t.Errorf("still known: %+v", known)
	}
}

// TestMemoryPriority: a pod without a Pods API is node-critical from the first container that shows
// it, in whatever state that is.
func TestMemoryPriority(t *testing.T) {
	t.Parallel()
	proxy := inGuest("kube-proxy", v1.PodQOSBurstable, cri.Resources{OOMScoreAdj: -997})
	c := &proxy.Containers[0]
	for state, set := range map[string]func(){
		"created":        func() { c.Running, c.Creating = false, true },
		"in its backoff": func() { c.Running, c.Creating = false, false },
	} {
		set()
		if got := one(t, proxy, nil); got.Priority != partition.NodeCritical {
			t.Errorf("%s: priority %d", state, got.Priority)
		}
	}

	m := PodMemory{Partition: partition.System}
	m.Note(cgroups.FS(t.TempDir()), []podmove.Pod{proxy}, nil)
	proxy.Containers = nil // the runtime has removed it
	m.Note(cgroups.FS(t.TempDir()), []podmove.Pod{proxy}, nil)
	pods := Candidates(partition.System, []podmove.Pod{proxy}, nil, capacity)
	m.raise(pods)
	if pods[0].Priority != partition.NodeCritical {
		t.Errorf("between two containers: priority %d", pods[0].Priority)
	}
	other := Candidates(partition.System, []podmove.Pod{inGuest("dns", v1.PodQOSBurstable)}, nil, capacity)
	if m.raise(other); other[0].Priority != 0 {
		t.Errorf("another pod: priority %d", other[0].Priority)
	}
	reported := Candidates(partition.System, []podmove.Pod{proxy}, told(&kubelet.Pod{UID: proxy.UID, Priority: 5}), capacity)
	if m.raise(reported); reported[0].Priority != 5 {
		t.Errorf("the kubelet's priority is replaced by %d", reported[0].Priority)
	}
}

// TestMemoryCandidates: what is remembered counts for a pod that the last reconcile has found, and
// for one that it has not.
func TestMemoryCandidates(t *testing.T) {
	t.Parallel()
	root := cgroups.FS(t.TempDir())
	db, proxy := inGuest("db", v1.PodQOSGuaranteed), inGuest("kube-proxy", v1.PodQOSBurstable, cri.Resources{OOMScoreAdj: -997})
	for _, p := range []podmove.Pod{db, proxy} {
		if err := os.MkdirAll(root.Path(partition.CgroupPath(p.Partitions[0].Slice)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m := PodMemory{Partition: partition.System}
	m.Note(root, []podmove.Pod{db, proxy}, told(&kubelet.Pod{UID: db.UID, Namespace: "kube-system", Name: "db", Priority: 7}))
	proxy.Containers = nil
	for name, found := range map[string][]podmove.Pod{"both found": {db, proxy}, "neither found": nil} {
		pods := m.Candidates(host.Node{Cgroups: root, Proc: "/proc"}, found, nil, true, capacity)
		if len(pods) != 2 {
			t.Fatalf("%s: %+v", name, pods)
		}
		for _, p := range pods {
			if want := map[bool]int32{true: 7, false: partition.NodeCritical}[p.QoS == v1.PodQOSGuaranteed]; p.Priority != want {
				t.Errorf("%s: priority %d of %s, want %d", name, p.Priority, p.Name, want)
			}
		}
	}
}
