package recommend

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"nodepartition/internal/bytesize"
	"nodepartition/internal/output"
	"nodepartition/internal/samples"
)

// mostGrowth bounds a limit as a multiple of what the pods need without what leaks have added. A
// leak has no end: a limit that follows it does not protect the node.
const mostGrowth = 2

// sizing holds what turns a usage into a limit.
type sizing struct {
	// factor is 1 and the margin, and least the least threshold in bytes.
	factor       float64
	least        uint64
	withoutLeaks bool
}

// choose returns the limit: with what leaks have added, because the cluster may be growing and what
// is in use is not to be evicted at once. It is the limit without, if that is asked for. Neither is
// raised beyond mostGrowth times the need without leaks.
func (c *computation) choose(n needs, leaks []Leak, by sizing, replay func(uint64) Simulation) *Figure {
	without := by.figure(n.without)
	if len(leaks) == 0 {
		c.spare(without, by.most(without), replay)
		return without
	}
	with := by.figure(n.with)
	c.WithGrowth, c.WithoutGrowth = with.clone(), without.clone()
	most := by.most(without)
	atEnd := n.atEnd
	switch {
	case by.withoutLeaks:
		without.why("what leaks had added is left out (--without-leaks): with it, memoryLimit is %s", bytesize.Text(with.Bytes))
		c.spare(without, most, replay)
		return without
	case with.Bytes <= most:
		c.warn("the limit of %s has room for what %s had added: if that leaks, and does not grow with the cluster, "+
			"--without-leaks gives %s", bytesize.Text(with.Bytes), names(leaks), bytesize.Text(without.Bytes))
		return with
	case atEnd+threshold(most, by.least) <= most:
		bounded := without
		bounded.why("%s had added so much that the largest usage would need %s: %s is twice what the pods need without that, and no more is recommended",
			names(leaks), bytesize.Text(with.Bytes), bytesize.Text(most))
		bounded.Bytes = most
		c.warn("%s grows without an end that this history knows: give it a memory limit, or a lower priority; "+
			"the partition is not made larger than %s for it", names(leaks), bytesize.Text(most))
		return bounded
	}
	c.noSection("%s are in use at the end of the history, which needs a limit of %s; without what %s had added it is %s, and more than twice that is not recommended: "+
		"give it a memory limit, or restart it; --without-leaks takes the smaller limit, and --force the larger",
		bytesize.Text(atEnd), bytesize.Text(with.Bytes), names(leaks), bytesize.Text(without.Bytes))
	return with
}

// most returns the largest limit that is recommended, by the figure without growth.
func (by sizing) most(without *Figure) uint64 {
	return max(limitFor(mostGrowth*min(without.need, mostNeed), by.least), without.Bytes)
}

// needs holds what a limit has to have room for: with what leaks have added, and without it.
type needs struct {
	with, without need
	// atEnd is the usage at the end, in bytes.
	atEnd uint64
}

// need holds the largest amounts of a history, in bytes.
type need struct {
	peak peak
	// highest is the largest usage, with what leaks had added.
	highest   uint64
	highestAt time.Time
	// set is the largest working set, and requests the largest sum of the requests of the members.
	set      uint64
	setAt    time.Time
	requests uint64
}

// measure returns what a history needs. Its samples have the partition.
func measure(list []samples.Sample, leaks []Leak) needs {
	n := needs{without: largest(list, leaks), atEnd: usage(list[len(list)-1].Partition)}
	n.with = n.without
	if len(leaks) > 0 {
		n.with = largest(list, nil)
	}
	return n
}

// largest returns the largest amounts, less what leaks have added.
func largest(list []samples.Sample, leaks []Leak) need {
	n := need{peak: peakOf(list, leaks), requests: maxRequests(list)}
	n.highest, n.highestAt = highestUsage(list)
	n.set, n.setAt = largestWorkingSet(list, leaks)
	return n
}

// figure returns the limit that has room for a need.
func (by sizing) figure(n need) *Figure {
	f := &Figure{PeakBytes: n.peak.bytes, PeakTime: n.peak.at, need: uint64(float64(n.peak.bytes) * by.factor)}
	f.why("the peak is %s, at %s%s", bytesize.Text(n.peak.bytes), output.Time(n.peak.at), n.peak.why)
	if n.highest > n.peak.bytes {
		f.why("the largest usage was %s, at %s: with what leaks had added", bytesize.Text(n.highest), output.Time(n.highestAt))
	}
	f.why("plus %.0f %% is %s", (by.factor-1)*100, bytesize.Text(f.need))
	if n.set > f.need {
		f.need = n.set
		f.why("the working set, with the page cache in use, is %s, at %s: with less, pods would read their files again and again",
			bytesize.Text(n.set), output.Time(n.setAt))
	}
	if n.requests > f.need {
		f.need = n.requests
		f.why("the pods request %s: below that, pods would be evicted that use no more than they request", bytesize.Text(n.requests))
	}
	f.Bytes = limitFor(f.need, by.least)
	f.why("plus the threshold of %s, rounded up to a multiple of %s", bytesize.Text(threshold(f.Bytes, by.least)), bytesize.Text(step(f.Bytes)))
	return f
}

func (f *Figure) clone() *Figure {
	out := *f
	out.Why = slices.Clone(f.Why)
	return &out
}

// names lists what leaks, each once.
func names(leaks []Leak) string {
	var list []string
	for _, l := range leaks {
		if !slices.Contains(list, l.Name) {
			list = append(list, l.Name)
		}
	}
	return strings.Join(list, ", ")
}

// usage returns what the partition uses with all of its members: those that wait outside for their
// next start come into it with the next boot at the latest.
func usage(p *samples.Usage) uint64 {
	if p.Pods == nil {
		return p.UsedPeakBytes
	}
	return max(p.Pods.AllUsedBytes, p.UsedPeakBytes)
}

// workingSet is usage as the kubelet counts it, 0 where it is not known.
func workingSet(p *samples.Usage) uint64 {
	known := uint64(0)
	if p.Cache != nil {
		known = p.Cache.WorkingSetBytes
	}
	if p.Pods != nil && known > 0 {
		known = max(known, p.Pods.AllWorkingSetBytes)
	}
	return known
}

// peak is a highest usage.
type peak struct {
	bytes uint64
	at    time.Time
	why   string
}

// peakOf returns the highest usage, less what leaks have added. Where a pod that does not leak was
// evicted, or the kernel killed at the limit, the limit has cut off the usage: there it counts a
// fifth more, and at least 100Mi.
func peakOf(list []samples.Sample, leaks []Leak) peak {
	var best peak
	for i := range list {
		p := list[i].Partition
		used := usage(p)
		less := uint64(excessAt(leaks, p.PeakTime))
		h := peak{bytes: used - min(less, used), at: p.PeakTime, why: outside(p)}
		if less >= mebi {
			h.why += fmt.Sprintf(": %s, less %s that leaks had added", bytesize.Text(used), bytesize.Text(less))
		}
		if cutOff(p, leaks) {
			bumped := max(uint64(float64(h.bytes)*oomRatio), h.bytes+oomBytes)
			h.why += fmt.Sprintf("; usage of %s was cut off there by an eviction or a kill, which counts a fifth more, at least 100Mi", bytesize.Text(h.bytes))
			h.bytes = bumped
		}
		if h.bytes > best.bytes {
			best = h
		}
	}
	return best
}

// outside explains the part of a usage that is charged outside of the partition.
func outside(p *samples.Usage) string {
	if p.Pods == nil {
		return ""
	}
	text := ""
	if p.Pods.Waiting > 0 {
		text = fmt.Sprintf(", with %s of %d members that wait outside for their next start", bytesize.Text(p.Pods.WaitingUsedBytes), p.Pods.Waiting)
	}
	if p.Pods.LeftBytes >= mebi {
		text += fmt.Sprintf(", with %s that live moves left outside", bytesize.Text(p.Pods.LeftBytes))
	}
	return text
}

func highestUsage(list []samples.Sample) (bytes uint64, at time.Time) {
	for i := range list {
		if used := usage(list[i].Partition); used > bytes {
			bytes, at = used, list[i].Partition.PeakTime
		}
	}
	return bytes, at
}

func largestWorkingSet(list []samples.Sample, leaks []Leak) (bytes uint64, at time.Time) {
	for i := range list {
		p := list[i].Partition
		set := workingSet(p)
		set -= min(uint64(excessAt(leaks, p.PeakTime)), set)
		if set > bytes {
			bytes, at = set, p.PeakTime
		}
	}
	return bytes, at
}

// requests returns the sum of the requests of the members at a sample, and false where it is not
// known.
func requests(s *samples.Sample) (bytes uint64, known bool) {
	for _, m := range s.Members {
		bytes += m.RequestBytes
	}
	if s.Partition.Pods != nil {
		return max(bytes, s.Partition.Pods.RequestBytes), true
	}
	return bytes, len(s.Members) > 0
}

// maxRequests returns the largest sum of the requests of the members.
func maxRequests(list []samples.Sample) uint64 {
	most := uint64(0)
	for i := range list {
		bytes, _ := requests(&list[i])
		most = max(most, bytes)
	}
	return most
}
