package recommend

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"nodepartition/internal/samples"
)

// NodeHistory holds the hours of one of several nodes. Histories on disks and a Prometheus give the
// same, without pods.
type NodeHistory struct {
	// Name is the name of the node, and Shape the group of nodes that gets one recommendation.
	Name, Shape string
	// Hours has a sample for each hour of which something is known, the oldest first, as Hours returns
	// them. A sample without a partition counts for nothing but the services.
	Hours []samples.Sample
	// LeastThreshold in bytes is the least threshold for the CPUs of the node, and NodeBytes its
	// memory. 0 means that it is not known.
	LeastThreshold, NodeBytes uint64
}

// hour is the length of the samples of a NodeHistory.
const hour = time.Hour

// eviction stands for the pods that were evicted in an hour, whose names do not count.
const eviction = "a pod"

// Hours returns a history in hours of UTC, with what a Prometheus knows too: no pods, no boots, and
// one group with all services. The time of a sample is the start of its hour.
func Hours(list []samples.Sample) []samples.Sample {
	list = slices.Clone(list)
	for i := range list {
		s := &list[i]
		s.Boot, s.Members, s.Others = "", nil, nil
	}
	out := samples.Fold(list, hour)
	for i := range out {
		s := &out[i]
		s.Time = s.Time.Truncate(hour)
		s.Groups = services(s.Groups)
		if s.Partition == nil {
			continue
		}
		p := *s.Partition
		p.PeakTime = s.Time
		if len(p.Evicted) > 0 {
			p.Evicted = []string{eviction}
		}
		if p.Pods != nil {
			pods := *p.Pods
			pods.Waiting, pods.LeftBytes = 0, 0 // they are in the sums
			p.Pods = &pods
		}
		s.Partition = &p
	}
	return out
}

// services returns the slices at the top of the hierarchy as one group. nodepartition_host_memory_*
// has the slices alone.
func services(groups []samples.Group) []samples.Group {
	all := samples.Group{Name: "services"}
	for _, g := range groups {
		if !g.Kube && strings.HasSuffix(g.Name, ".slice") {
			all.WorkingSetBytes += g.WorkingSetBytes
		}
	}
	if all.WorkingSetBytes == 0 {
		return nil
	}
	return []samples.Group{all}
}

// measuredNode is a node of a shape, reduced to what its recommendation needs.
type measuredNode struct {
	name string
	needs
	leaks, serviceLeaks []Leak
	// requests means that the requests of the members are known.
	requests bool
	// late is the highest threshold at which the kernel killed before an eviction.
	late uint64
	// services is the largest working set of the services, 0 if it is not known.
	services           peak
	least, memoryBytes uint64
}

// measureNode reduces a node of which at least one hour has the partition.
func measureNode(h NodeHistory, list []samples.Sample) measuredNode {
	leaks := nodeLeaks(list)
	m := measuredNode{
		name: h.Name, needs: measure(list, leaks), leaks: leaks,
		least: h.LeastThreshold, memoryBytes: h.NodeBytes,
	}
	m.requests = m.with.requests > 0
	_, m.late = leastThreshold(list, 0)
	var series []point
	for i := range h.Hours {
		for _, g := range h.Hours[i].Groups {
			at := h.Hours[i].Time
			series = append(series, point{at: at, bytes: float64(g.WorkingSetBytes)})
			if g.WorkingSetBytes > m.services.bytes {
				m.services = peak{bytes: g.WorkingSetBytes, at: at}
			}
		}
	}
	m.serviceLeaks = plain(groupLeaks(allServices, series))
	m.leaks = plain(m.leaks)
	return m
}

// nodeLeaks returns the leaks of the partition of a node. Which pods it has, and when the node was
// booted, is not known: an eviction, a kill and a fall by half begin another run.
func nodeLeaks(list []samples.Sample) []Leak {
	series := make([]point, 0, len(list))
	for i := range list {
		series = append(series, point{at: list[i].Time, bytes: float64(list[i].Partition.UsedLowBytes)})
	}
	ends := 0
	for i := range list {
		series[i].life = strconv.Itoa(ends)
		if p := list[i].Partition; len(p.Evicted) > 0 || p.KilledAtLimit > 0 || p.KilledElsewhere > 0 {
			ends++
		}
	}
	return groupLeaks(memoryOfPods, series)
}

// plain returns leaks without their bases: thousands of nodes are kept.
func plain(leaks []Leak) []Leak {
	for i := range leaks {
		leaks[i].trend = trend{}
	}
	return leaks
}
