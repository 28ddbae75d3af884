package recommend

import (
	"strconv"
	"testing"
	"time"

	"nodepartition/internal/samples"
)

// TestComputeProtectedLeak: where all pods are protected, no limit evicts the leak, and the kernel
// kills any of them. The limit has room for all of the recorded usage.
func TestComputeProtectedLeak(t *testing.T) {
	t.Parallel()
	list := history(7*day, oneBoot, nil, pod{"etcd", 0, 10, true, leak(50, 5, 0)}, pod{"apiserver", 0, 300, true, flat(200)})
	r := compute(list)
	highest := list[len(list)-1].Partition.UsedPeakBytes
	if at := r.Simulations[0]; len(at.Evictions) > 0 || r.MemoryLimit.Bytes < highest+r.EvictionHard.Bytes {
		t.Errorf("limit %dMi of %dMi: %+v, %q", r.MemoryLimit.Bytes/mebi, highest/mebi, at.Evictions[:min(1, len(at.Evictions))], r.Warnings)
	}
	if !refuses(r, "more than twice that is not recommended") || !warns(r, "kube-system/etcd grows by") {
		t.Errorf("%q, %q", r.NoSection, r.Warnings)
	}
	if r = withoutLeaks(list); !r.EvictsAtOnce || !warns(r, "the kernel would kill") {
		t.Errorf("%q", r.Warnings)
	}
}

// TestComputeAboveNode: a limit above the memory of the node protects nothing.
func TestComputeAboveNode(t *testing.T) {
	t.Parallel()
	list := history(day, oneBoot, nil, pod{"a", 0, 100, false, flat(1500)}) // a margin of 100 %
	for node, want := range map[uint64]bool{0: false, 2 * gibi: true, 8 * gibi: false} {
		if r := computeIn(Input{Samples: list, NodeBytes: node}); refuses(r, "is not below the memory of the node") != want {
			t.Errorf("node of %d: limit %dMi, %q", node, r.MemoryLimit.Bytes/mebi, r.NoSection)
		}
	}
}

// TestComputeBelowPresentUsage: a limit without the growth of a leak, which is still in use, evicts
// as soon as it is tried. It is not recommended unless it is asked for.
func TestComputeBelowPresentUsage(t *testing.T) {
	t.Parallel()
	list := history(7*day, oneBoot, nil, pod{"a", 0, 10, false, leak(50, 5, 0)}, pod{"web", 0, 300, false, flat(200)})
	for i := range list {
		list[i].Members = nil
	}
	if r := compute(list); r.MemoryLimit.Bytes < 1091*mebi || r.EvictsAtOnce || !refuses(r, "are in use at the end of the history") {
		t.Errorf("limit %dMi, %q", r.MemoryLimit.Bytes/mebi, r.NoSection)
	}
	if r := withoutLeaks(list); r.MemoryLimit.Bytes > 900*mebi || !r.EvictsAtOnce || !warns(r, "in use at the end of the history") {
		t.Errorf("limit %dMi, %q", r.MemoryLimit.Bytes/mebi, r.Warnings)
	}
	healthy := compute(history(7*day, oneBoot, nil, pod{"web", 0, 300, false, flat(200)}))
	if warns(healthy, "in use at the end") || warns(healthy, "kernel") {
		t.Errorf("%q", healthy.Warnings)
	}
}

// TestLimitForAnyUsage: a forged history does not make the search for a limit endless.
func TestLimitForAnyUsage(t *testing.T) {
	t.Parallel()
	done := make(chan uint64)
	go func() { done <- limitFor(1<<64-1, 0) }()
	select {
	case limit := <-done:
		if limit < 1<<50 {
			t.Errorf("%d", limit)
		}
	case <-time.After(10 * time.Second):
		t.Error("no end")
	}
}

// TestComputeManyPods: a sample has the pods that use most. The requests of others are not in the
// limit, and the replay does not evict them.
func TestComputeManyPods(t *testing.T) {
	t.Parallel()
	for pods, want := range map[int]bool{samples.MaxMembers - 1: false, samples.MaxMembers: true} {
		list := make([]pod, 0, pods)
		for n := range pods {
			list = append(list, pod{strconv.Itoa(n), 0, 50, false, flat(20)})
		}
		if r := compute(history(day, oneBoot, nil, list...)); warns(r, "pods that use most") != want {
			t.Errorf("%d pods: %q", pods, r.Warnings)
		}
	}
}

// TestComputeNoKubeServices: a kubelet in a service of another name, such as that of k0s, is in
// none of the recorded ones. A kubeReserved of nothing is no recommendation.
func TestComputeNoKubeServices(t *testing.T) {
	t.Parallel()
	list := history(7*day, oneBoot, nil, pod{"a", 0, 100, false, flat(100)})
	for i := range list {
		list[i].Groups = list[i].Groups[:2]
	}
	r := compute(list)
	if r.KubeReserved != nil || r.SystemReserved == nil || !warns(r, "no service of the kubelet") {
		t.Errorf("%+v, %+v, %q", r.KubeReserved, r.SystemReserved, r.Warnings)
	}
}
