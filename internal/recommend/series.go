package recommend

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"nodepartition/internal/samples"
)

// memberLeaks returns the leaks of pods, by the samples with members.
func (c *computation) memberLeaks(list []samples.Sample) []Leak {
	series, names := map[string][]point{}, map[string]string{}
	for i := range list {
		for _, m := range list[i].Members {
			names[m.UID] = m.Namespace + "/" + m.Name
			at := list[i].Partition.PeakTime
			series[m.UID] = append(series[m.UID], point{at, float64(m.UsedBytes), list[i].Boot + m.Containers})
		}
	}
	var leaks []Leak
	for _, uid := range slices.Sorted(maps.Keys(series)) {
		if c.Err() != nil {
			break
		}
		sortByTime(series[uid])
		for _, t := range trends(series[uid]) {
			leaks = append(leaks, newLeak(names[uid], uid, t))
		}
	}
	slices.SortStableFunc(leaks, func(a, b Leak) int { return a.From.Compare(b.From) })
	return leaks
}

// partitionLeaks returns the partition's growth minus known leaks. Without member samples, nothing
// finer is known. With them a pod that comes or ends begins another run: its memory does not count
// as growth.
func partitionLeaks(list []samples.Sample, known []Leak) []Leak {
	series := make([]point, 0, len(list))
	ends := 0 // of the pods that may have grown
	for i := range list {
		p := list[i].Partition
		low := float64(p.UsedLowBytes) - excessAt(known, p.PeakTime)
		series = append(series, point{p.PeakTime, max(low, 0), list[i].Boot + strconv.Itoa(ends) + uids(list[i].Members)})
		if len(p.Evicted) > 0 || p.KilledAtLimit > 0 || p.KilledElsewhere > 0 {
			ends++
		}
	}
	sortByTime(series)
	return newLeaks(memoryOfPods, series)
}

// uids returns the UIDs of members in order.
func uids(members []samples.Member) string {
	list := make([]string, 0, len(members))
	for _, m := range members {
		list = append(list, m.UID)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// groupLeaks returns the leaks of a group of processes whose restarts are not known: it counts a
// fall by half as one.
func groupLeaks(name string, values []point) []Leak {
	life := 0
	for i := range values {
		if i > 0 && values[i].bytes < values[i-1].bytes/2 {
			life++
		}
		values[i].life += "/" + strconv.Itoa(life)
	}
	return newLeaks(name, values)
}

// newLeaks returns the leaks of a series that is not a pod's.
func newLeaks(name string, series []point) []Leak {
	found := trends(series)
	leaks := make([]Leak, 0, len(found))
	for _, t := range found {
		leaks = append(leaks, newLeak(name, "", t))
	}
	return leaks
}

func newLeak(name, uid string, t trend) Leak {
	return Leak{
		Name: name, UID: uid, From: t.from, To: t.to, BaseBytes: uint64(t.base),
		GrowthBytes: uint64(t.excess(t.to)), BytesPerHour: uint64(t.perHour), trend: t,
	}
}

func sortByTime(series []point) {
	slices.SortStableFunc(series, func(a, b point) int { return a.at.Compare(b.at) })
}

// until returns the time that a leak takes for so many bytes.
func (l Leak) until(bytes uint64) time.Duration {
	return time.Duration(float64(bytes) / max(float64(l.BytesPerHour), 1) * float64(time.Hour))
}
