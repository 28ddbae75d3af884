package evict

import (
	"errors"
	"fmt"
)

// leftBehind is memory of the partition that evictions have left there and that belongs to no pod:
// files on a tmpfs of the node, as in a hostPath below /dev/shm or /run. When the cgroup of the pod
// is removed the kernel charges them to the cgroup above (reparenting, mm/memcontrol.c). Evicting
// another pod does not bring them back.
type leftBehind struct {
	// Base is the memory in bytes that belonged to no pod before the first of these evictions. The
	// kernel charges the cgroups of pods to the slice above them.
	Base uint64 `json:"base,omitempty"`
	// Bytes is the memory that was added, in bytes.
	Bytes uint64 `json:"bytes,omitempty"`
}

// of returns the part that is still there, in bytes, given the memory that belongs to no pod.
func (l leftBehind) of(ownerless uint64) uint64 {
	return min(l.Bytes, ownerless-min(l.Base, ownerless))
}

// add returns l after an eviction, given the memory that belonged to no pod before and after it.
func (l leftBehind) add(before, after uint64) leftBehind {
	if l.Bytes == 0 {
		l.Base = before
	}
	l.Bytes = after - min(l.Base, after)
	return l
}

// ownerless returns the memory of the partition that belongs to no pod, in bytes.
func ownerless(used uint64, pods []Pod) uint64 {
	for i := range pods {
		used -= min(used, pods[i].Usage.Used)
	}
	return used
}

// checkLeft notes how much of the memory of an eviction has been left in the partition, where it
// belongs to no pod. used is the present usage of the partition.
func (x *executor) checkLeft(e *execution, used uint64) {
	after := ownerless(used, Measure(x.Cgroups, x.Pods(), x.warn))
	left := after - min(e.OwnerlessBytes, after)
	if left < e.UsedBytes/2 {
		return // other pods have grown
	}
	x.state.Left = x.state.Left.add(e.OwnerlessBytes, after)
	if e.Problem == "" {
		e.Problem = fmt.Sprintf(
			"%d of %d bytes are still in %s and belong to no pod: files on a tmpfs of the node (a hostPath below "+
				"/dev/shm or /run) stay when their pod ends; delete them",
			left,
			e.UsedBytes,
			x.name(),
		)
		x.Events.Failed(e.record(), StepReclaim, errors.New(e.Problem))
	}
}
