package samples

import (
	"cmp"
	"slices"
)

// MaxMembers is the number of pods of a partition in a sample.
const MaxMembers = 32

// The other bounds of a sample.
const (
	maxGroups  = 20
	maxEvicted = 16
	// maxOthers is the number of partitions beside the system partition (maxWorkloads,
	// pkg/slices/config).
	maxOthers = 16
	// sharedMembers bounds the pods of all partitions but the system partition together. A node with
	// three of them has room for MaxMembers of each. The system partition has its own room: no other
	// partition takes it.
	sharedMembers = 3 * MaxMembers
)

// bound cuts the lists of a sample to their largest elements. The services of the kubelet and of
// the runtime come before other groups.
func (s *Sample) bound() {
	s.Groups = important(s.Groups)
	s.Members = largest(s.Members, MaxMembers)
	s.Partition.bound()
	//guard: partitions that come and go do not grow a sample
	s.Others = slices.Clone(s.Others[:min(len(s.Others), maxOthers)])
	most := share(s.Others)
	for i := range s.Others {
		o := &s.Others[i]
		o.bound()
		o.MembersLeft += max(min(len(o.Members), MaxMembers)-most, 0)
		o.Members = largest(o.Members, most)
	}
}

// bound cuts the lists of a usage. u may be nil.
func (u *Usage) bound() {
	if u != nil {
		u.Evicted = u.Evicted[:min(len(u.Evicted), maxEvicted)]
	}
}

// share returns the largest number of pods that each of these partitions may have, so that all have
// sharedMembers together. A partition with few pods leaves its room to the others.
func share(others []Other) int {
	for most := MaxMembers; ; most-- {
		sum := 0
		for i := range others {
			sum += min(len(others[i].Members), most)
		}
		if sum <= sharedMembers {
			return most
		}
	}
}

// largest returns the members that use most, at most so many of them.
func largest(members []Member, most int) []Member {
	if len(members) <= most {
		return members
	}
	sorted := slices.Clone(members)
	slices.SortStableFunc(sorted, func(a, b Member) int { return -cmp.Compare(a.UsedBytes, b.UsedBytes) })
	return sorted[:most]
}

// important returns the groups of the kubelet and of the runtime, and those that use most of the
// others, at most maxGroups in all.
func important(groups []Group) []Group {
	if len(groups) <= maxGroups {
		return groups
	}
	sorted := slices.Clone(groups)
	slices.SortStableFunc(sorted, func(a, b Group) int {
		switch {
		case a.Kube == b.Kube:
			return -cmp.Compare(a.WorkingSetBytes, b.WorkingSetBytes)
		case a.Kube:
			return -1
		}
		return 1
	})
	return sorted[:maxGroups]
}
