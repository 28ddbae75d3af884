package slices

import (
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"

	"nodepartition/internal/unitname"
)

// removed lists the partitions that are there, and that no section makes any more.
func (in *Input) removed() []unitname.PartitionName {
	made := partitionNames(in.config.Partitions)
	return slices.DeleteFunc(slices.Clone(in.names), func(name unitname.PartitionName) bool {
		return !in.running[name] || slices.Contains(made, name) || in.config.IsKubelets(name)
	})
}

// addRemoved gives a partition all CPUs that is not made any more and still has pods. Static pods
// stay in it until they start again. Without a list the kernel keeps the former one, as
// allowedCPUs says, and no unit shows it. addExclusive does the same while CPUs are exclusive.
func addRemoved(add func(string, ...*unit.UnitOption), in *Input) {
	if in.restrictsOthers() {
		return
	}
	for _, name := range in.names {
		dropin := name.Slice() + ".d/" + dropinName
		switch {
		case slices.Contains(in.removed(), name) && in.keepsCPUs[name]:
			add(dropin, outlivesShutdown(), option("Slice", "AllowedCPUs", in.presentCPUs.String()))
		case slices.Contains(partitionNames(in.config.Partitions), name):
		case strings.Contains(in.kept[dropin], "AllowedCPUs="):
			add(dropin, outlivesShutdown()) // it has no pods, or the kubelet makes it now
		}
	}
}
