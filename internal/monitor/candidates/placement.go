package candidates

import (
	"k8s.io/apimachinery/pkg/types"

	"nodepartition/internal/podsapi"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/podmove"
)

// Placement tells in which cgroups the pods of the node are.
type Placement struct {
	// Pods counts all of them, and Members those of the partition, wherever they are. RequestBytes is
	// the sum of the memory requests of the members.
	Pods, Members int
	RequestBytes  uint64
	// Waiting lists the members that have containers outside of the partition, each with the cgroup
	// that those are in, without usage.
	Waiting []evict.Pod
	// LeftBytes is memory of the other members that live moves left charged outside.
	LeftBytes uint64
}

// Place returns where the pods are that a pass has found and reported, with what the kubelet has
// reported since. capacity is the node's memory in bytes.
func Place(
	reports []podmove.PodReport, found []podmove.Pod, known map[types.UID]*podsapi.Pod, capacity uint64,
) Placement {
	placed := Placement{Pods: len(reports)}
	byUID := make(map[string]*podmove.Pod, len(found))
	for i := range found {
		byUID[found[i].UID] = &found[i]
	}
	for i := range reports {
		report := &reports[i]
		if !report.Member {
			continue
		}
		placed.Members++
		waits := report.Misplaced > 0 && report.Partition() != unitname.System
		pod := evict.Pod{UID: report.UID, Namespace: report.Namespace, Name: report.Name}
		if p := byUID[report.UID]; p != nil {
			pod = listed(*p, waits, known, capacity)
		}
		placed.RequestBytes += pod.Request
		if waits {
			pod.Cgroup = unitname.CgroupPath(report.Slice)
			placed.Waiting = append(placed.Waiting, pod)
		} else {
			placed.LeftBytes += report.OutsideBytes
		}
	}
	return placed
}

// listed returns a pod as Inventory does. The request of one that waits is estimated from the
// containers that it has outside.
func listed(p podmove.Pod, waits bool, known map[types.UID]*podsapi.Pod, capacity uint64) evict.Pod {
	if waits {
		p.PartitionCgroup = p.DefaultCgroup
	}
	p.PartitionCgroup.Exists = true
	if pods := Inventory([]podmove.Pod{p}, known, capacity); len(pods) == 1 {
		return pods[0]
	}
	return evict.Pod{UID: p.UID, Namespace: p.Namespace, Name: p.Name}
}
