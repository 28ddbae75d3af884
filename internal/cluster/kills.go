package cluster

import (
	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
)

// Kills attributes processes that the kernel has killed at a partition's limit to its pods.
// memory.events of the partition counts all kills, and memory.events of a pod's slice counts the
// pod's. If the pod or a container exceeded its own limit, the same file counts an oom: such a pod
// is left out.
type Kills struct {
	// Cgroups is the mount.
	Cgroups cgroups.FS
	// Partition is the name of the partition.
	Partition partition.Name

	known map[string]killCounts
	total uint64 // of the partition, at the last call
	ahead uint64 // kills that were found in pods, and not in total yet
}

// killCounts holds the two counts of cgroups.FS.Kills.
type killCounts struct{ killed, atOwnLimit uint64 }

// Since returns the processes that were killed at the limit of the partition since the last call,
// by the cgroup of the pod, and the number of those that were killed in no pod that is still there.
// The first call returns none. A pod that was not there at the last call has no counts from before.
func (k *Kills) Since() (killed map[string]uint64, unknown uint64) {
	// Read first: a kill that follows is found in its pod, and the next call finds it in total.
	total, _, err := k.Cgroups.Kills(partition.CgroupPath(k.Partition.Slice()))
	if err != nil {
		total = 0 // the partition is gone
	}
	before, first := k.known, k.known == nil
	k.known = k.read()
	if total < k.total {
		k.total, k.ahead = 0, 0 // its slice was created again
	}
	missing := total - k.total
	k.total = total
	if first {
		return nil, 0
	}
	killed = map[string]uint64{}
	for cgroup, counts := range k.known {
		old := before[cgroup]
		if counts.killed < old.killed || counts.atOwnLimit < old.atOwnLimit {
			old = killCounts{} // the slice was created again
		}
		grown := counts.killed - old.killed
		k.ahead += grown
		if grown > 0 && counts.atOwnLimit == old.atOwnLimit {
			killed[cgroup] = grown
		}
	}
	found := min(k.ahead, missing)
	k.ahead -= found
	return killed, missing - found
}

// read returns the counts of all pods in the partition.
func (k *Kills) read() map[string]killCounts {
	now := map[string]killCounts{}
	for _, parent := range k.Partition.Slices() {
		children, err := k.Cgroups.Children(partition.CgroupPath(parent))
		if err != nil {
			continue // unreadable: its kills count for no known pod
		}
		for _, slice := range children {
			if partition, _, _, ok := partition.ParsePodSlice(slice); !ok || partition != k.Partition {
				continue
			}
			cgroup := partition.CgroupPath(slice)
			if killed, atOwnLimit, err := k.Cgroups.Kills(cgroup); err == nil {
				now[cgroup] = killCounts{killed, atOwnLimit}
			}
		}
	}
	return now
}
