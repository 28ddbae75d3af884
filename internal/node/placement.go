package node

import (
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// MemberPlaces tells in which cgroups the pods of the node are.
type MemberPlaces struct {
	// Pods counts all pods, and Members the partition's members, wherever they are. RequestBytes is
	// the sum of the memory requests of the members.
	Pods, Members int
	RequestBytes  uint64
	// Waiting lists the members that have containers outside of the partition, each with the cgroup
	// that those are in, without usage.
	Waiting []evict.Pod
	// LeftBytes is memory of the other members that live moves left charged outside.
	LeftBytes uint64
}

// Outside returns the memory of the waiting members outside of the partition, as eviction counts
// it.
func (p MemberPlaces) Outside(tree cgroups.FS, warn func(error)) (used uint64) {
	for _, pod := range evict.Measure(tree, p.Waiting, warn) {
		used += pod.Usage.Used
	}
	return used
}

// MemberPlacesOf returns where the pods are that a reconcile has found and reported, with what the
// kubelet has reported since. capacity is the node's memory in bytes.
func MemberPlacesOf(
	name partition.Name, reports []report.Pod, found []podmove.Pod,
	known map[types.UID]*kubelet.Pod, capacity uint64,
) MemberPlaces {
	placed := MemberPlaces{Pods: len(reports)}
	byUID := make(map[string]*podmove.Pod, len(found))
	for i := range found {
		byUID[found[i].UID] = &found[i]
	}
	for i := range reports {
		found := &reports[i]
		if found.Belongs != name {
			continue
		}
		placed.Members++
		waits := found.Misplaced > 0 && found.Partition() != name
		pod := evict.Pod{PodMeta: evict.PodMeta{UID: found.UID, Namespace: found.Namespace, Name: found.Name}}
		if p := byUID[found.UID]; p != nil {
			slice := p.Cgroup(name)
			if waits {
				slice = p.Cgroup(found.Partition())
			}
			if p.Exists {
				pod = listed(p, slice, known[types.UID(p.UID)], capacity)
			}
		}
		placed.RequestBytes += pod.Request
		if waits {
			pod.Cgroup = partition.CgroupPath(found.Slice)
			placed.Waiting = append(placed.Waiting, pod)
		} else {
			placed.LeftBytes += found.OutsideBytes
		}
	}
	return placed
}
