package faults

import (
	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/unitname"
)

// Kills attributes processes that the kernel has killed at the partition's limit to pods. The event
// file of the partition counts them all, and that of a pod's slice those of the pod. A pod whose
// own limit, or that of a container, could not be kept has an oom of its own in the same file: it
// is left out.
type Kills struct {
	// Cgroups is the mount.
	Cgroups cgroupfs.FS

	known map[string]killCounts
}

// killCounts holds the two counts of cgroupfs.FS.Kills.
type killCounts struct{ killed, atOwnLimit uint64 }

// Since returns the processes that were killed at the limit of the partition since the last call,
// by the cgroup of the pod. The first call returns none. A pod that was not there at the last call
// has no counts from before.
func (k *Kills) Since() map[string]uint64 {
	now := map[string]killCounts{}
	for _, parent := range unitname.System.Slices() {
		children, err := k.Cgroups.Children(unitname.CgroupPath(parent))
		if err != nil {
			continue // unreadable: its kills count as those of no known pod
		}
		for _, slice := range children {
			if partition, _, _, ok := unitname.ParsePodSlice(slice); !ok || partition != unitname.System {
				continue
			}
			cgroup := unitname.CgroupPath(slice)
			if killed, atOwnLimit, err := k.Cgroups.Kills(cgroup); err == nil {
				now[cgroup] = killCounts{killed, atOwnLimit}
			}
		}
	}
	before, first := k.known, k.known == nil
	k.known = now
	if first {
		return nil
	}
	found := map[string]uint64{}
	for cgroup, counts := range now {
		old := before[cgroup]
		if counts.killed < old.killed {
			old = killCounts{} // the slice was created again
		}
		if killed := counts.killed - old.killed; killed > 0 && counts.atOwnLimit <= old.atOwnLimit {
			found[cgroup] = killed
		}
	}
	return found
}
