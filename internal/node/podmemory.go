package node

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove"
)

// PodMemory holds what was known of pods that have a slice in a partition. The kubelet drops a pod
// from its list as soon as it is deleted with force, while its processes run on. And a container
// that shows the priority of its pod may be gone for a moment, between two starts. The class of a
// pod never changes, so what was seen of a UID once stays true.
type PodMemory struct {
	// Partition is the partition whose pods are remembered. It does not change.
	Partition partition.Name

	mu   sync.Mutex
	pods map[string]remembered // by UID, as in the names of slices
}

// remembered holds the last report of the kubelet about a pod, nil if there was none, and
// the highest priority that its containers have shown.
type remembered struct {
	kubelet  *kubelet.Pod
	priority int32
	slice    string // in the partition
}

// Note remembers the pods that a reconcile has found, with what the kubelet has reported. It
// forgets a pod that the reconcile has not found and whose slice in the partition is gone.
func (m *PodMemory) Note(fs cgroups.FS, found []podmove.Pod, known map[types.UID]*kubelet.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	noted := make(map[string]remembered, len(found))
	for i := range found {
		p := &found[i]
		slice := p.Cgroup(m.Partition)
		if !slice.Exists {
			continue
		}
		pod := m.pods[partition.EscapeUID(p.UID)]
		pod.slice, pod.priority = slice.Slice, max(pod.priority, estimatedPriority(p))
		if k := known[types.UID(p.UID)]; k != nil {
			pod.kubelet = k
		}
		noted[partition.EscapeUID(p.UID)] = pod
	}
	for uid, pod := range m.pods {
		if _, found := noted[uid]; found {
			continue
		}
		if fs.Has(partition.CgroupPath(pod.slice)) {
			noted[uid] = pod
		}
	}
	m.pods = noted
}

// Candidates returns the pods of the Inventory and those that no reconcile has found yet, with what
// is remembered of them. told means that the kubelet has reported its pods since the start.
func (m *PodMemory) Candidates(
	n host.Node, found []podmove.Pod, known map[types.UID]*kubelet.Pod, told bool, capacity uint64,
) []evict.Pod {
	//guard: a pod that is deleted with force keeps what was known of it
	known = m.complete(known, told)
	pods := Candidates(m.Partition, found, known, capacity)
	pods = append(pods, unlisted(m.Partition, n, pods, known, capacity)...)
	//guard: a pod stays node-critical between two containers
	m.raise(pods)
	return pods
}

// complete returns the kubelet's pods with those that it reported earlier and that still have a
// slice in the partition. If the kubelet has reported its pods since, those are being deleted.
func (m *PodMemory) complete(known map[types.UID]*kubelet.Pod, told bool) map[types.UID]*kubelet.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	complete := known
	for _, pod := range m.pods {
		k := pod.kubelet
		if k == nil || known[types.UID(k.UID)] != nil {
			continue
		}
		if told {
			deleted := *k
			deleted.Terminating = true
			k = &deleted
		}
		if len(complete) == len(known) {
			complete = maps.Clone(known)
			if complete == nil {
				complete = map[types.UID]*kubelet.Pod{}
			}
		}
		complete[types.UID(k.UID)] = k
	}
	return complete
}

// raise gives pods whose priority is estimated the highest priority that they have shown.
func (m *PodMemory) raise(pods []evict.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range pods {
		if p := &pods[i]; p.Estimated {
			p.Priority = max(p.Priority, m.pods[partition.EscapeUID(p.UID)].priority)
		}
	}
}

// estimatedPriority returns the highest priority that the containers of a pod show. A container
// that is created or has ended has the same score as one that runs.
func estimatedPriority(p *podmove.Pod) int32 {
	priority := int32(0)
	for _, c := range p.Containers {
		priority = max(priority, evict.EstimatePriority(p.QoS, c.Resources.OOMScoreAdj))
	}
	return priority
}
