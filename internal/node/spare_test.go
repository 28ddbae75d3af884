package node_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/thresholds"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/slices/decision"
	"node-partition.io/node-partition/tests/fakenode"
)

// TestSpare: the node can spare what is available without its threshold and the margin, and without
// what others may still take. It has 16000 MiB, of which 6000 are available.
func TestSpare(t *testing.T) {
	const (
		mi   = 1 << 20
		pods = "kubepods.slice"
	)
	user := func(uid string, request int64) *kubelet.Pod {
		return &kubelet.Pod{UID: uid, QoS: v1.PodQOSBurstable, MemoryRequest: request * mi}
	}
	member := func(namespace string, request int64) *kubelet.Pod {
		pod := user("a", request)
		pod.Namespace = namespace
		return pod
	}
	batch := partition.CgroupPath(partition.Name("batch").Slice())
	followed := node.Followed{Decision: decision.Decision{Partitions: []decision.Partition{
		{Name: partition.System, Namespaces: []string{"kube-system"}, Eviction: &thresholds.Thresholds{Limit: 2000 * mi, Burst: 8000 * mi}},
		{Name: "batch", Namespaces: []string{"jobs"}, Eviction: &thresholds.Thresholds{Limit: 1400 * mi, Burst: 1600 * mi}},
		{Name: "unlimited", Namespaces: []string{"other"}, Eviction: &thresholds.Thresholds{}},
		{Name: "off", Off: true},
	}}}
	cgroup := func(p partition.Name, uid string) string {
		return partition.CgroupPath(partition.PodSlice(p, v1.PodQOSBurstable, uid))
	}
	for name, test := range map[string]struct {
		pods []*kubelet.Pod
		// uses has current, inactive page cache and the limit of cgroups in MiB.
		uses      map[string][3]int
		threshold int64
		want      evict.Spare
	}{
		"nobody else":                     {threshold: 100, want: evict.Spare{Bytes: 5100, Margin: 800}},
		"a large threshold":               {threshold: 1000, want: evict.Spare{Bytes: 4000, Margin: 1000}},
		"no threshold":                    {want: evict.Spare{Bytes: 5200, Margin: 800}},
		"the limit of all pods is nearer": {uses: map[string][3]int{pods: {13000, 1000, 13500}}, want: evict.Spare{Bytes: 1500 - 800, Margin: 800}},
		"a pod that uses half":            {pods: []*kubelet.Pod{user("a", 1000)}, uses: map[string][3]int{cgroup(partition.Default, "a"): {600, 100, 0}}, want: evict.Spare{Bytes: 5200 - 500, Margin: 800}},
		"a pod that has not started":      {pods: []*kubelet.Pod{user("a", 1000)}, want: evict.Spare{Bytes: 5200 - 1000, Margin: 800}},
		"a pod that has ended":            {pods: []*kubelet.Pod{{UID: "a", Ended: true, MemoryRequest: 1000 * mi}}, want: evict.Spare{Bytes: 5200, Margin: 800}},
		"one beyond its request, one below": {
			pods: []*kubelet.Pod{user("a", 1000), user("b", 1000)},
			uses: map[string][3]int{cgroup(partition.Default, "a"): {3000, 0, 0}, cgroup(partition.Default, "b"): {200, 0, 0}},
			want: evict.Spare{Bytes: 5200 - 800, Margin: 800},
		},
		"a member that has not started": {pods: []*kubelet.Pod{member("kube-system", 1000)}, want: evict.Spare{Bytes: 5200, Margin: 800}},
		"a member that runs outside until its next start": {
			pods: []*kubelet.Pod{member("kube-system", 1000)}, uses: map[string][3]int{cgroup(partition.Default, "a"): {200, 0, 0}},
			want: evict.Spare{Bytes: 5200 - 800, Margin: 800},
		},
		"another partition, up to its configured limit": {
			pods: []*kubelet.Pod{member("jobs", 5000)},
			uses: map[string][3]int{cgroup("batch", "a"): {900, 0, 0}, batch: {900, 0, 3000}},
			want: evict.Spare{Bytes: 5200 - 500, Margin: 800},
		},
		"another partition that has borrowed": {
			uses: map[string][3]int{batch: {2000, 0, 3000}},
			want: evict.Spare{Bytes: 5200, Margin: 800},
		},
		"another partition without a limit": {
			pods: []*kubelet.Pod{member("other", 1000)},
			uses: map[string][3]int{cgroup("unlimited", "a"): {900, 0, 0}},
			want: evict.Spare{Bytes: 5200 - 100, Margin: 800},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := fakenode.New(t, fakenode.Valid("kube-system"))
			n.Write("/proc/meminfo", fmt.Sprintf("MemTotal: %d kB\nMemFree: %d kB\nInactive(file): %d kB", 16000<<10, 5000<<10, 1000<<10))
			uses := map[string][3]int{pods: {9000, 0, 0}, batch: {1400, 0, 3000}}
			for path, use := range test.uses {
				uses[path] = use
			}
			for path, use := range uses {
				limit := "max"
				if use[2] > 0 {
					limit = fmt.Sprint(use[2] * mi)
				}
				for file, text := range map[string]string{
					"memory.current": fmt.Sprint(use[0] * mi), "memory.max": limit, "memory.min": "0",
					"memory.stat": fmt.Sprintf("inactive_file %d\nactive_file 0\nslab_reclaimable 0", use[1]*mi),
				} {
					n.Write(filepath.Join(cgroups.Mount, path, file), text)
				}
			}
			listed := map[types.UID]*kubelet.Pod{}
			for _, pod := range test.pods {
				listed[types.UID(pod.UID)] = pod
			}
			got, err := node.Spare(n.Host(), partition.System, followed, listed, test.threshold*mi)
			if got.Bytes /= mi; err != nil || got.Bytes != test.want.Bytes || got.Margin/mi != test.want.Margin {
				t.Errorf("%+v, %v; want %+v", got, err, test.want)
			}
		})
	}
}

// TestSpareUnread: nothing is known of a node whose files lack a figure.
func TestSpareUnread(t *testing.T) {
	n := fakenode.New(t, fakenode.Valid("kube-system"))
	if _, err := node.Spare(n.Host(), partition.System, node.Followed{}, nil, 0); err == nil || !strings.Contains(err.Error(), "MemFree") {
		t.Errorf("%v; want an error that names MemFree", err)
	}
}
