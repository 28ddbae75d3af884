package slices

import (
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"

	"node-partition.io/node-partition/internal/partition"
)

// removed lists the partitions that are there, and that no section makes any more.
func (in *Input) removed() []partition.Name {
	made := partitionNames(in.config.Partitions)
	return slices.DeleteFunc(slices.Clone(in.names), func(name partition.Name) bool {
		return !in.running[name] || slices.Contains(made, name) || in.config.IsKubelets(name)
	})
}

// addRemoved keeps a partition that is not made any more off exclusive CPUs, and gives it all CPUs
// while it has pods. Static pods stay in it until they start again. Without a list the kernel keeps
// the former one, and no unit shows it.
func addRemoved(add func(string, ...*unit.UnitOption), in *Input) {
	removed := in.removed()
	for _, name := range in.names {
		dropin := name.Slice() + ".d/" + dropinName
		cpus := in.withoutList(name)
		switch {
		//guard: a former partition is kept off exclusive CPUs
		//guard: a partition that is removed with pods gets all CPUs
		case slices.Contains(removed, name) && !cpus.IsEmpty():
			add(dropin, outlivesShutdown(), option("Slice", "AllowedCPUs", cpus.String()))
		case in.restrictsOthers || slices.Contains(partitionNames(in.config.Partitions), name):
		//guard: a partition that has become empty has no list of CPUs of ours
		case strings.Contains(in.kept[dropin], "AllowedCPUs="):
			add(dropin, outlivesShutdown()) // it has no pods, or the kubelet makes it now
		}
	}
}
