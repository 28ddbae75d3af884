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

// Namespaces returns the namespaces of all partitions, also of those that are switched off.
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

// Rules decides which partition a pod belongs to, as a Policy says. It is made once for a Policy,
// and asked for each pod. In its zero value all pods belong to the default partition.
type Rules struct{ on, all partition.Rules }

// Rules returns the rules of the policy.
func (p Policy) Rules() Rules {
	var on, off []partition.Claim
	for i := range p.Partitions {
		claim := partition.Claim{Partition: p.Partitions[i].Name, Namespaces: p.Partitions[i].Namespaces}
		if p.Partitions[i].Off {
			off = append(off, claim)
		} else {
			on = append(on, claim)
		}
	}
	all := slices.Concat(on, off)
	return Rules{
		//guard: types of a partition that is off have no members
		on:  partition.NewRules(on...).With(typesOf(p.Workloads, on)),
		all: partition.NewRules(all...).With(typesOf(p.Workloads, all)),
	}
}

// typesOf returns the workload types whose partition is among the claims. A pod of another type has
// nowhere to go.
func typesOf(all []partition.Workload, claims []partition.Claim) []partition.Workload {
	return slices.DeleteFunc(slices.Clone(all), func(w partition.Workload) bool {
		return !slices.ContainsFunc(claims, func(claim partition.Claim) bool { return claim.Partition == w.Partition })
	})
}

// Partition returns the partition that a pod belongs to. A partition that is switched off has no
// pods.
func (r Rules) Partition(p partition.Pod) partition.Name { return r.on.Partition(p) }

// Place returns where a pod belongs, and why. A partition that is switched off has no pods.
func (r Rules) Place(p partition.Pod) partition.Place { return r.on.Place(p) }

// claimant returns the place of a pod, as if no partition were switched off.
func (r Rules) claimant(p partition.Pod) partition.Place { return r.all.Place(p) }
