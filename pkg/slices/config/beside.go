package config

import (
	"fmt"
	"slices"

	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/kubeletconfig"
)

// overlapping validates what partitions must not have in common. Problems within one section
// are not repeated.
func overlapping(config *kubeletconfig.Merged, list []Partition, n *node) (warnings []string, err error) {
	var found problems
	type place struct{ partition, at int }
	taken := map[string]place{}
	for i := range list {
		path := SectionPath(list[i].Name) + ".namespaces"
		for at, namespace := range list[i].Namespaces {
			switch first, is := taken[namespace]; {
			case !is:
				taken[namespace] = place{i, at}
			case first.partition != i:
				found.add(
					config.SectionFileWith(path), fmt.Sprintf("%s[%d]", path, at), quote(namespace),
					"is in %s.namespaces[%d] already; remove one", SectionPath(list[first.partition].Name), first.at,
				)
			}
		}
	}
	exclusiveAlone(config, list, n, &found)
	if warning := overcommitted(config, list, n); warning != "" {
		warnings = append(warnings, warning)
	}
	return warnings, found.err()
}

// ExclusiveCPUs returns the CPUs that are kept for one partition each.
func ExclusiveCPUs(list []Partition) cpuset.CPUSet {
	all := cpuset.New()
	for _, p := range list {
		if p.Exclusive {
			all = all.Union(p.CPUs)
		}
	}
	return all
}

// exclusiveAlone validates that exclusive CPUs are in no other cpuset, and that a CPU is left for
// the pods of no partition.
func exclusiveAlone(config *kubeletconfig.Merged, list []Partition, n *node, found *problems) {
	bad := func(p *Partition, format string, args ...any) {
		path := SectionPath(p.Name) + ".cpuset"
		found.add(config.SectionFileWith(path), path, quote(p.CPUs.String()), format, args...)
	}
	for i := range list {
		p := &list[i]
		for j := range list[:i] {
			q := &list[j]
			shared := p.CPUs.Intersection(q.CPUs)
			switch {
			case shared.IsEmpty():
			case q.Exclusive:
				bad(p, "CPU %s is in %s.cpuset, which is exclusive; want disjoint lists", shared, SectionPath(q.Name))
			case p.Exclusive:
				bad(p, "is exclusive, and CPU %s is in %s.cpuset, too; want disjoint lists", shared, SectionPath(q.Name))
			}
		}
	}
	//guard: exclusive CPUs leave one for other pods
	if all := ExclusiveCPUs(list); n.knowsCPUs() && !all.IsEmpty() && n.CPUs.IsSubsetOf(all) {
		last := &list[slices.IndexFunc(list, func(p Partition) bool { return p.Exclusive })]
		bad(last, "with the other exclusive lists it leaves no CPU of %s for other pods; want lists without one of them", n.CPUs)
	}
}

// overcommitted returns a warning if the partitions may use all of the node's memory together. Each
// alone is below it.
func overcommitted(config *kubeletconfig.Merged, list []Partition, n *node) string {
	if n.MemoryBytes == 0 {
		return ""
	}
	var sum uint64
	limited := 0
	file := ""
	for _, p := range list {
		if p.Limit > 0 && p.Limit < n.MemoryBytes {
			sum += min(p.Limit, n.MemoryBytes) // cannot overflow: there are at most 17
			limited++
			file = config.SectionFileWith(SectionPath(p.Name) + ".memoryLimit")
		}
	}
	if limited < 2 || sum < n.MemoryBytes {
		return ""
	}
	return fmt.Sprintf(
		"%s: memoryLimit: the limits of %d partitions add up to %d bytes, and the node has %d: together they can take the memory "+
			"of all other pods; want less",
		file, limited, sum, n.MemoryBytes,
	)
}
