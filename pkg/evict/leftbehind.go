package evict

import (
	"errors"
	"fmt"
	"time"
)

// Ownerless returns the memory in bytes of a partition that belongs to no pod that runs in it,
// given its usage and its pods' (cgroups.MemoryReading.Used). When the cgroup of a pod is
// removed the kernel charges what the pod has left to the cgroup above (reparenting,
// mm/memcontrol.c): files on a tmpfs of the node, as in a hostPath below /dev/shm or /run. A pod
// that was moved out alive has left all that it used. Evicting another pod does not bring it back.
func Ownerless(used uint64, pods []Pod) uint64 {
	for i := range pods {
		if !pods[i].Empty {
			used -= min(used, pods[i].Usage.Used)
		}
	}
	return used
}

// kernelNeeds is the memory in bytes that the kernel itself needs for a pod, at most: it charges
// the cgroups of a pod to the slice above them, some 0.1 MiB each.
const kernelNeeds = 1 << 20

// LeftBehind returns the part of the memory of no pod, in bytes, that the kernel does not need for
// so many pods: somebody has left it, and it stays when processes end.
func LeftBehind(ownerless uint64, pods int) uint64 {
	//guard: what the kernel needs for the cgroups of pods was left by nobody
	return ownerless - min(ownerless, uint64(pods+1)*kernelNeeds)
}

// leftBehind returns the part of Ownerless, in bytes, for which no pod within its request is
// evicted. What a pod without processes uses beyond its request is not in it: that pod is evicted
// for it.
func (s Situation) leftBehind() uint64 {
	left := LeftBehind(s.Ownerless, len(s.Pods))
	for i := range s.Pods {
		if p := &s.Pods[i]; p.Empty && !p.withinRequest() {
			left -= min(left, p.Usage.Used)
		}
	}
	return left
}

// checkLeft reports how much of the memory of an eviction has been left in the partition, where it
// belongs to no pod. used is the present usage of the partition.
func (x *executor) checkLeft(e *execution, used uint64) {
	if e.UsedBytes == 0 || used+e.UsedBytes/2 <= e.PartitionBytes {
		return // it was not measured, or it is back
	}
	after := Ownerless(used, Measure(x.Cgroups, x.Pods(), x.warn))
	left := after - min(e.OwnerlessBytes, after)
	//guard: a pod that grows while another ends has left nothing behind
	if left < e.UsedBytes/2 {
		return // other pods have grown
	}
	//guard: an eviction that left files is remembered
	x.state.LeftAt = time.Now()
	if e.Problem != "" {
		return // there is more to say
	}
	e.Problem = fmt.Sprintf(
		"%d of %d bytes are still in %s and belong to no pod: files on a tmpfs of the node (a hostPath below "+
			"/dev/shm or /run) stay when their pod ends; delete them",
		left,
		e.UsedBytes,
		x.name(),
	)
	x.Events.Failed(e.record(), StepReclaim, errors.New(e.Problem))
}
