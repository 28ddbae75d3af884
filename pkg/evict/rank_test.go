package evict

import (
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
)

const mi = 1 << 20

// sized returns a pod that uses and requests so many MiB. Negative usage stands for a pod without a
// reading.
func sized(name string, priority int32, uses, requests int) Pod {
	p := Pod{
		PodMeta: PodMeta{
			UID: name, Namespace: "kube-system", Name: name, QoS: v1.PodQOSBurstable, Owner: "kube-system/" + name,
			Priority: priority,
		}, Request: uint64(requests) * mi, Measured: uses >= 0,
	}
	if p.Measured {
		p.Usage = Usage{WorkingSet: uint64(uses) * mi, Used: uint64(uses) * mi}
	}
	return p
}

func names(pods []Pod) []string {
	list := make([]string, 0, len(pods))
	for _, p := range pods {
		list = append(list, p.Name)
	}
	return list
}

// TestRank has the usage and the results of the kubelet's own tests
// (pkg/kubelet/eviction/helpers_test.go, v1.37.0). Each list is in eviction order.
func TestRank(t *testing.T) {
	for name, want := range map[string][]Pod{
		"TestOrderedByExceedsRequestMemory": {
			sized("exceeds-requests", 1, 101, 100),
			sized("below-requests", -1, 199, 200),
		},
		"TestOrderedByPriority": { // without usage
			sized("low-priority", -134, -1, 0),
			sized("medium-priority", 1, -1, 100),
			sized("high-priority", 12534, -1, 200),
		},
		"TestOrderedByMemory": {
			sized("burstable-high", 2000, 800, 100),
			sized("best-effort-high", 2000, 500, 0),
			sized("best-effort-low", 2000, 300, 0),
			sized("burstable-low", 2000, 300, 100),
			sized("guaranteed-high", 2000, 800, 1024),
			sized("guaranteed-low", 2000, 200, 1024),
		},
		"TestOrderedByPriorityMemory": {
			sized("above-requests-low-priority-high-usage", 500, 500, 0),
			sized("above-requests-low-priority-low-usage", 500, 50, 0),
			sized("above-requests-high-priority-high-usage", 2000, 600, 100),
			sized("above-requests-high-priority-low-usage", 2000, 150, 100),
			sized("below-requests-low-priority-high-usage", 500, 800, 1024),
			sized("below-requests-low-priority-low-usage", 500, 200, 1024),
			sized("below-requests-high-priority-high-usage", 2000, 800, 1024),
			sized("below-requests-high-priority-low-usage", 2000, 200, 1024),
		},
		// Cases of the kubelet's comparisons that its tests leave out.
		"without usage, whatever the priority": {
			sized("unknown", partition.NodeCritical, -1, 100),
			sized("greedy", -5, 5000, 0),
			sized("modest", -5, 10, 100),
		},
		"as much as the request is not above it": {
			sized("above", 7, 101, 100),
			sized("low-priority", 3, 1, 100),
			sized("exact", 7, 100, 100),
		},
		"nothing used, nothing requested": {
			sized("a-byte-is-above", 7, 1, 0),
			sized("nothing", 0, 0, 0),
		},
		"equal pods by name": {
			sized("a", 1, 100, 50),
			sized("b", 1, 100, 50),
			sized("c", 1, 150, 100),
		},
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			for range 20 {
				pods := slices.Clone(want)
				random.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
				before := names(pods)
				if got := names(rank(pods)); !slices.Equal(got, names(want)) {
					t.Fatalf("order %q, want %q", got, names(want))
				}
				if !slices.Equal(names(pods), before) {
					t.Fatal("Rank has changed its argument")
				}
			}
		})
	}
}
