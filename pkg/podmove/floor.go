package podmove

import (
	"slices"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/unitname"
)

// raiseParent decides about the protected memory of kubepods.slice. A floor of the partition is
// effective under memory pressure of the whole node only as far as kubepods.slice has as much
// (effective_protection, mm/page_counter.c).
//
// kubepods.slice is the kubelet's. Without memoryReservationPolicy TieredReservation the kubelet
// sets memory.min and memory.low to 0 when it starts, and leaves them alone after that
// (qosContainerManagerImpl.Start, pkg/kubelet/cm/qos_container_manager_linux.go, 1.37). With that
// policy it writes the requests of all pods every minute, and its values stay.
func (d *Decision) raiseParent(s Snapshot) {
	slice := unitname.Default.Slice()
	present, ok := s.Protected[slice]
	if !ok || s.kubeletProtects() {
		return
	}
	if !s.Config.Off {
		d.Raised = s.Config.Floor
	}
	target := cgroupfs.Protection{
		Min: raised(present.Min, s.Raised.Min, d.Raised.Min),
		Low: raised(present.Low, s.Raised.Low, d.Raised.Low),
	}
	if target != present {
		d.Protect = append(d.Protect, ProtectSpec{slice, target})
	}
}

// raised returns the protection that replaces present. former was set by an earlier pass. A larger
// one that is not from here is an operator's, and stays.
func raised(present, former, want uint64) uint64 {
	if present == former || present < want {
		return want
	}
	return present
}

// kubeletProtects reports whether the kubelet protects the requests of pods, and with them
// kubepods.slice.
func (s Snapshot) kubeletProtects() bool {
	return slices.ContainsFunc(s.Pods, func(pod Pod) bool {
		return pod.DefaultCgroup.Limits.Protection != cgroupfs.Protection{}
	})
}
