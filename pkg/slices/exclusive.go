package slices

import (
	"strings"

	"github.com/coreos/go-systemd/v22/unit"
	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/partition"
)

// Exclusive CPUs are taken from all slices below kubepods.slice, by a drop-in for their common
// prefix (systemd.unit(5)). It applies to the kubelet's transient slices too: a new slice of a
// Guaranteed pod has it at its creation (seen with 252, 257 and 262). A file of the same name masks
// it where the name of the folder is more specific:
//
//   - The partitions have such a file for another reason (shutdownDropins), and their CPUs are in
//     their units.
//   - The slices of Burstable and BestEffort pods have it empty, because the slices above them are
//     restricted.
//   - A partition that is not to be made any more has the CPUs of all others in its file
//     (addRemoved).
//   - A system partition that the kubelet makes has it empty: its CPUs are the kubelet's business.
//
// When no CPU is exclusive any more, the drop-in lists all CPUs for the rest of the boot: systemd
// writes nothing for a setting that is gone, and the kernel takes no empty list for a cpuset with
// processes.

// exclusiveDropins lists the drop-in for all slices, and the empty ones.
func exclusiveDropins() []string {
	dropins := append(make([]string, 0, 3), partition.Default.Below()+".d/"+dropinName)
	for _, class := range []string{partition.Burstable, partition.BestEffort} {
		stem := strings.TrimSuffix(partition.QoSSlice(partition.Default, class), ".slice")
		dropins = append(dropins, stem+"-.slice.d/"+dropinName)
	}
	return dropins
}

// wasExclusive reports whether an output of this boot has the drop-in for all slices.
func (in *Input) wasExclusive() bool {
	_, was := in.kept[exclusiveDropins()[0]]
	return was
}

// othersCPUs returns the CPUs of the pods that no exclusive CPU is for.
func (in *Input) othersCPUs() cpuset.CPUSet { return in.nodeCPUs.Difference(in.exclusive) }

// addExclusive keeps all slices below kubepods.slice off the exclusive CPUs.
func addExclusive(add func(string, ...*unit.UnitOption), in *Input) {
	if !in.restrictsOthers {
		return
	}
	for i, path := range exclusiveDropins() {
		if i == 0 {
			add(path, option("Slice", "AllowedCPUs", in.othersCPUs().String()))
			continue
		}
		add(path)
	}
	for _, name := range in.names {
		if in.running[name] && in.config.IsKubelets(name) {
			add(name.Slice() + ".d/" + dropinName)
			add(name.Below() + ".d/" + dropinName)
		}
	}
}

// restrictsRunning reports whether slices of the kubelet have to be restricted that exist already.
func (in *Input) restrictsRunning() bool { return in.restrictsOthers && in.podsRun }

// applyToAll makes systemd write the CPUs of all active slices below kubepods.slice.
const applyToAll = `/bin/sh -c "cd ` + partition.CgroupMount + `/kubepods.slice && r=0; for s in kubepods-*.slice; do ` + applyEach
