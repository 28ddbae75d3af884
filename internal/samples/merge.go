package samples

import (
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
	if out.Partition.peaksWith(a.Partition) {
		out.Members = a.Members
	}
	out.Others = mergeOthers(a.Others, b.Others)
	out.bound()
	return out
}

// mergeOthers merges the partitions of two samples by name. The second sample's come first: if
// there are too many, the ones that are gone are left out.
func mergeOthers(a, b []Other) []Other {
	out := slices.Clone(b)
	for _, first := range a {
		i := slices.IndexFunc(out, func(o Other) bool { return o.Name == first.Name })
		if i < 0 {
			out = append(out, first)
			continue
		}
		out[i].Usage = *mergePartitions(&first.Usage, &out[i].Usage)
		if out[i].peaksWith(&first.Usage) {
			out[i].Members = first.Members
		}
	}
	return out
}

// peaksWith reports whether the largest usage of two is of the first of them. Both may be nil.
func (u *Usage) peaksWith(first *Usage) bool {
	return u != nil && first != nil && u.PeakTime.Equal(first.PeakTime)
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
		out.UsedPeakBytes, out.PeakTime, out.MembersLeft = a.UsedPeakBytes, a.PeakTime, a.MembersLeft
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

// reaches reports whether a sample continues this one within a stretch of time. s may be nil.
func (s *Sample) reaches(next Sample, stretch time.Duration) bool {
	return s != nil && s.Boot == next.Boot && !next.Time.Before(s.Time) &&
		next.Time.Truncate(stretch).Equal(s.Time.Truncate(stretch))
}
