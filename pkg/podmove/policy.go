package podmove

import (
	"slices"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// Policy is the part of the configuration that placement needs.
type Policy struct {
	// Partitions lists the partitions in the order of the configuration. If two claim a namespace, the
	// first has it.
	Partitions []decision.Partition
	// Workloads lists the workload types. Those of a partition that is off have no members.
	Workloads []partition.Workload
	// Mode is the method of moving running pods.
	Mode Mode
}

// Off reports whether all partitions are switched off, or there is none.
func (p Policy) Off() bool {
	return !slices.ContainsFunc(p.Partitions, func(p decision.Partition) bool { return !p.Off })
}

// isOn reports whether a partition is switched on.
func (p Policy) isOn(name partition.Name) bool {
	return slices.ContainsFunc(p.Partitions, func(p decision.Partition) bool { return p.Name == name && !p.Off })
}

// Namespaces returns the namespaces of all partitions.
func (p Policy) Namespaces() []string {
	var all []string
	for i := range p.Partitions {
		all = append(all, p.Partitions[i].Namespaces...)
	}
	return all
}

// floor returns the sum of the floors: what each partition has of protected memory at least,
// whatever its pods have. kubepods.slice has to have as much.
func (p Policy) floor() cgroups.Protection {
	var sum cgroups.Protection
	for i := range p.Partitions {
		if !p.Partitions[i].Off {
			sum = sum.Plus(p.Partitions[i].Protection)
		}
	}
	return sum
}

// ownCPU returns the CPU time of the CPUs of a partition with a type that has a resource, in
// thousandths of a CPU. It is 0 for any other partition.
func (p Policy) ownCPU(of partition.Name) int64 {
	for i := range p.Workloads {
		if w := &p.Workloads[i]; w.Partition == of && w.Advertise {
			return 1000 * int64(w.CPUs)
		}
	}
	return 0
}

// names returns the names of the partitions.
func (p Policy) names() []partition.Name {
	names := make([]partition.Name, len(p.Partitions))
	for i := range p.Partitions {
		names[i] = p.Partitions[i].Name
	}
	return names
}

// with returns the policy with the partitions of that name that it lacks. They are switched off.
func (p Policy) with(names []partition.Name) Policy {
	for _, name := range names {
		if !slices.ContainsFunc(p.Partitions, func(p decision.Partition) bool { return p.Name == name }) {
			p.Partitions = append(slices.Clip(p.Partitions), decision.Partition{Name: name, Off: true})
		}
	}
	return p
}

// sameMembers reports whether a policy moves pods as another one does.
func (p Policy) sameMembers(q Policy) bool {
	//guard: other types are other members
	same := p.Mode == q.Mode && slices.EqualFunc(p.Workloads, q.Workloads, partition.Workload.Equal)
	return same && slices.EqualFunc(p.Partitions, q.Partitions, func(a, b decision.Partition) bool {
		return a.Name == b.Name && a.Off == b.Off && slices.Equal(a.Namespaces, b.Namespaces)
	})
}

// Rules returns the rules of who belongs to which partition. One that is switched off has no pods.
func (p Policy) Rules() partition.Rules {
	var rules partition.Rules
	for i := range p.Partitions {
		if of := &p.Partitions[i]; !of.Off {
			rules.Add(of.Name, of.Namespaces...)
		}
	}
	return rules.With(slices.DeleteFunc(slices.Clone(p.Workloads), func(w partition.Workload) bool {
		//guard: types of a partition that is off have no members
		return !p.isOn(w.Partition) // a pod of such a type has nowhere to go
	}))
}
