package samples

import (
	"cmp"
	"slices"
	"time"
)

// coarse is the stretch of a sample that is kept for two weeks.
const coarse = 10 * time.Minute

// window returns the start of the ten minutes to which a sample belongs.
func window(t time.Time) time.Time { return t.Truncate(coarse) }

// merge returns the sample of two stretches of time, the second after the first: the maxima, and
// what was last where there is no maximum. It changes neither.
func merge(a, b Sample) Sample {
	out := b
	out.Seconds += a.Seconds
	out.Node = mergeBoth(mergeNodes, a.Node, b.Node)
	out.Groups = mergeGroups(a.Groups, b.Groups)
	out.Partition = mergeBoth(mergePartitions, a.Partition, b.Partition)
	if out.Partition != nil && a.Partition != nil && out.Partition.PeakTime.Equal(a.Partition.PeakTime) {
		out.Members = a.Members
	}
	out.bound()
	return out
}

// mergeBoth merges a and b, or returns the one that there is.
func mergeBoth[T any](merge func(a, b *T) *T, a, b *T) *T {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return merge(a, b)
}

func mergePartitions(a, b *Usage) *Usage {
	out := *b
	if a.UsedPeakBytes >= b.UsedPeakBytes {
		out.UsedPeakBytes, out.PeakTime = a.UsedPeakBytes, a.PeakTime
	}
	out.UsedLowBytes = min(a.UsedLowBytes, b.UsedLowBytes)
	out.CurrentPeakBytes = max(a.CurrentPeakBytes, b.CurrentPeakBytes)
	out.Cache, out.Pods = mergeBoth(mergeCaches, a.Cache, b.Cache), mergeBoth(mergePods, a.Pods, b.Pods)
	out.PressurePercent = max(a.PressurePercent, b.PressurePercent)
	out.MilliCPU = max(a.MilliCPU, b.MilliCPU)
	out.Evicted = slices.Concat(a.Evicted, b.Evicted)
	out.KilledAtLimit += a.KilledAtLimit
	out.KilledElsewhere += a.KilledElsewhere
	return &out
}

func mergeNodes(a, b *Node) *Node {
	out := *b
	out.Pods = max(a.Pods, b.Pods)
	return &out
}

func mergeCaches(a, b *Cache) *Cache {
	return &Cache{
		WorkingSetBytes:   max(a.WorkingSetBytes, b.WorkingSetBytes),
		FileMappedBytes:   max(a.FileMappedBytes, b.FileMappedBytes),
		InactiveFileBytes: max(a.InactiveFileBytes, b.InactiveFileBytes),
	}
}

func mergePods(a, b *Pods) *Pods {
	return &Pods{
		Members:                max(a.Members, b.Members),
		RequestBytes:           max(a.RequestBytes, b.RequestBytes),
		Waiting:                max(a.Waiting, b.Waiting),
		WaitingUsedBytes:       max(a.WaitingUsedBytes, b.WaitingUsedBytes),
		WaitingWorkingSetBytes: max(a.WaitingWorkingSetBytes, b.WaitingWorkingSetBytes),
		WaitingRequestBytes:    max(a.WaitingRequestBytes, b.WaitingRequestBytes),
		LeftBytes:              max(a.LeftBytes, b.LeftBytes),
		AllUsedBytes:           max(a.AllUsedBytes, b.AllUsedBytes),
		AllWorkingSetBytes:     max(a.AllWorkingSetBytes, b.AllWorkingSetBytes),
	}
}

func mergeGroups(a, b []Group) []Group {
	out := slices.Clone(a)
	for _, g := range b {
		i := slices.IndexFunc(out, func(o Group) bool { return o.Name == g.Name })
		if i < 0 {
			out = append(out, g)
			continue
		}
		out[i].WorkingSetBytes = max(out[i].WorkingSetBytes, g.WorkingSetBytes)
		out[i].MilliCPU = max(out[i].MilliCPU, g.MilliCPU)
	}
	return out
}

// largest returns the members that use most, at most MaxMembers of them.
func largest(members []Member) []Member {
	if len(members) <= MaxMembers {
		return members
	}
	sorted := slices.Clone(members)
	slices.SortStableFunc(sorted, func(a, b Member) int { return -cmp.Compare(a.UsedBytes, b.UsedBytes) })
	return sorted[:MaxMembers]
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

// reaches reports whether a sample continues this one within a stretch of time. s may be nil.
func (s *Sample) reaches(next Sample, stretch time.Duration) bool {
	return s != nil && s.Boot == next.Boot && !next.Time.Before(s.Time) &&
		next.Time.Truncate(stretch).Equal(s.Time.Truncate(stretch))
}
