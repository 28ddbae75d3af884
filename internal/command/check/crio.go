package check

import (
	"context"

	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/internal/text"
)

// crioName is the name by which CRI-O answers.
const crioName = "cri-o"

// crioWorkloads finds entries of CRI-O's own table of workloads with other CPUs than the partition
// of the type: CRI-O writes them when it creates a container.
func (c *checks) crioWorkloads(context.Context) []state.Finding {
	//guard: a table of CRI-O does not count where another runtime answers
	if c.runtimeName != "" && c.runtimeName != crioName {
		return saying(state.OK, "the runtime %s has no table of workloads", c.runtimeName)
	}
	table, err := cri.ConfiguredWorkloads(c.options.Node.Root)
	if err != nil {
		return saying(state.Warning, "whether CRI-O gives CPUs by an annotation is not known: %v", err)
	}
	var found []state.Finding
	for _, entry := range table {
		for _, w := range c.desired.Workloads {
			p := c.desired.Partition(w.Partition)
			if entry.Annotation != partition.TargetPrefix+w.Type || entry.CPUs == "" || p == nil || p.CPUs.IsEmpty() {
				continue
			}
			if cpus, err := text.ParseCPUs(entry.CPUs); err != nil || !cpus.Equals(p.CPUs) {
				found = append(found, changing(
					state.Warning, "write the CPUs of the partition there, as partition-monitor render crio does, or remove the entry",
					"CRI-O gives a container with %s CPUs %s by %s, and its partition has the CPUs %s",
					entry.Annotation, text.ASCII(entry.CPUs), entry.File, p.CPUs,
				)...)
			}
		}
	}
	if found == nil {
		found = saying(state.OK, "CRI-O gives no other CPUs by an annotation than the partitions have")
	}
	return found
}
