package podmove

import (
	"slices"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
)

// raiseParent decides about the protected memory of kubepods.slice. The floors of partitions are
// effective under memory pressure of the whole node only as far as kubepods.slice has their sum
// (effective_protection, mm/page_counter.c).
//
// kubepods.slice is the kubelet's. Without memoryReservationPolicy TieredReservation the kubelet
// sets memory.min and memory.low to 0 when it starts, and leaves them alone after that
// (qosContainerManagerImpl.Start, pkg/kubelet/cm/qos_container_manager_linux.go, 1.37). With that
// policy it writes the requests of all pods every minute, and its values stay.
func (d *Decision) raiseParent(s Snapshot) {
	slice := partition.Default.Slice()
	present, ok := s.Protected[slice]
	if !ok || s.kubeletProtects() {
		d.Raised = s.Raised
		return
	}
	d.Raised = s.Config.floor()
	target := cgroups.Protection{
		Min: raised(present.Min, s.Raised.Min, d.Raised.Min),
		Low: raised(present.Low, s.Raised.Low, d.Raised.Low),
	}
	if target != present {
		d.Protect = append(d.Protect, ProtectSpec{slice, target})
	}
}

// raised returns the protection that replaces present. An earlier reconcile set former, or less if
// it failed. A larger one is an operator's, and stays.
func raised(present, former, want uint64) uint64 {
	//guard: protection that an earlier pass has set is taken back
	if present <= former || present < want {
		return want
	}
	return present
}

// readParent adds the protected memory of kubepods.slice to a snapshot, if there is a floor or was
// one.
func (g *Gatherer) readParent(s *Snapshot, protections cgroups.Protection) {
	if protections == (cgroups.Protection{}) {
		return
	}
	slice := partition.Default.Slice()
	if limits, err := g.Cgroups.Limits(partition.CgroupPath(slice)); err == nil {
		s.Protected[slice] = limits.Protection
	}
}

// kubeletProtects reports whether the kubelet protects the requests of pods, and with them
// kubepods.slice.
func (s Snapshot) kubeletProtects() bool {
	return slices.ContainsFunc(s.Pods, func(pod Pod) bool {
		return pod.DefaultCgroup.Limits.Protection != cgroups.Protection{}
	})
}
