package podmove

import (
	"slices"

	"node-partition.io/node-partition/internal/cgroupfs"
	"node-partition.io/node-partition/internal/statefile"
	"node-partition.io/node-partition/internal/unitname"
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
	slice := unitname.Default.Slice()
	present, ok := s.Protected[slice]
	if !ok || s.kubeletProtects() {
		d.Raised = s.Raised
		return
	}
	d.Raised = s.Config.floor()
	target := cgroupfs.Protection{
		Min: raised(present.Min, s.Raised.Min, d.Raised.Min),
		Low: raised(present.Low, s.Raised.Low, d.Raised.Low),
	}
	if target != present {
		d.Protect = append(d.Protect, ProtectSpec{slice, target})
	}
}

// raised returns the protection that replaces present. An earlier pass set former, or less if it
// failed. A larger one is an operator's, and stays.
func raised(present, former, want uint64) uint64 {
	//guard: protection that an earlier pass has set is taken back
	if present <= former || present < want {
		return want
	}
	return present
}

// readParent adds the protected memory of kubepods.slice to a snapshot, if there is a floor or was
// one.
func (g *Gatherer) readParent(s *Snapshot, floors cgroupfs.Protection) {
	if floors == (cgroupfs.Protection{}) {
		return
	}
	slice := unitname.Default.Slice()
	if limits, err := g.Cgroups.Limits(unitname.CgroupPath(slice)); err == nil {
		s.Protected[slice] = limits.Protection
	}
}

// raisedForm is the form of the record of the protected memory that kubepods.slice may have for a
// floor. The floor may be lowered while no monitor runs.
func raisedForm() recordForm[cgroupfs.Protection] {
	return recordForm[cgroupfs.Protection]{
		what: "recording the protected memory of " + unitname.Default.Slice(),
		read: readRaised,
		file: func(p cgroupfs.Protection) any {
			return raisedFile{raisedVersion, map[string]protectionFile{unitname.Default.Slice(): protectionFile(p)}}
		},
		equal: func(a, b cgroupfs.Protection) bool { return a == b },
	}
}

// raisedFile is the form of the record in its file.
type raisedFile struct {
	// Version is the version of the form.
	Version int `json:"version"`
	// Raised holds the protected memory that each slice may have for the floors of the partitions
	// below it.
	Raised map[string]protectionFile `json:"raised"`
}

// protectionFile is a cgroupfs.Protection in a file.
type protectionFile struct {
	Min uint64 `json:"min"`
	Low uint64 `json:"low"`
}

// raisedVersion is the present version. A file of a later one counts as broken.
const raisedVersion = 1

// readRaised reads the record of kubepods.slice. A file that is missing or broken counts as none,
// because a larger value of kubepods.slice then stays.
func readRaised(path string) cgroupfs.Protection {
	// The first form is {"Min":1,"Low":2}.
	var file struct {
		raisedFile
		Min, Low uint64
	}
	if err := statefile.Read(path, &file); err != nil {
		return cgroupfs.Protection{}
	}
	switch file.Version {
	case 0:
		return cgroupfs.Protection{Min: file.Min, Low: file.Low}
	case raisedVersion:
		return cgroupfs.Protection(file.Raised[unitname.Default.Slice()])
	}
	return cgroupfs.Protection{}
}

// kubeletProtects reports whether the kubelet protects the requests of pods, and with them
// kubepods.slice.
func (s Snapshot) kubeletProtects() bool {
	return slices.ContainsFunc(s.Pods, func(pod Pod) bool {
		return pod.DefaultCgroup.Limits.Protection != cgroupfs.Protection{}
	})
}
