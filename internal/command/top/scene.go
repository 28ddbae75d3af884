package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"nodepartition/internal/bytesize"
	"nodepartition/internal/command/status"
	"nodepartition/internal/samples"
	"nodepartition/internal/thresholds"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
)

// scene has what the command shows of a moment.
type scene struct {
	At time.Time
	// Past means that it is from the history.
	Past bool
	// Notes has what an operator should know of the node. Bad says that it is not well.
	Notes      []note
	Partitions []partition
}

// note is a line about the node.
type note struct {
	Text string
	Bad  bool
}

// partition is a partition at a moment. Amounts are in bytes.
type partition struct {
	Name unitname.PartitionName
	// Unread means that the memory is not known. The amounts are then 0.
	Unread bool
	// Used is the usage as eviction counts it, or its maximum of a minute in the past, and Peak the
	// maximum of the last minutes, 0 if it is not known. Limit and Threshold are 0 for none.
	Used, Peak, Limit, Threshold uint64
	// State describes how short of memory it is. Bad means that a threshold is crossed.
	State string
	Bad   bool
	// Misplaced counts members that are not where they belong.
	Misplaced int
	Events    []string
	// Pods are in the order of evictions, or by their usage in the past.
	Pods []pod
	// NoPods says why there are no pods, empty if there are.
	NoPods string
}

// pod is a pod of a partition. Amounts are in bytes.
type pod struct {
	Namespace, Name string
	Priority        int32
	Uses, Requests  uint64
	// Spared is the reason why it is not evicted, empty for a candidate.
	Spared string
}

// live returns the scene of a status.
func live(s status.Status) scene {
	v := scene{At: s.Time, Notes: []note{{"service " + s.Service, s.Service != "ready"}}}
	if s.Problem != "" {
		v.Notes = append(v.Notes, note{s.Problem, true})
	}
	if t := s.Trial; t != nil {
		v.Notes = append(v.Notes, note{"trial of " + t.From + " until " + t.Until.Format(time.TimeOnly), false})
	}
	for i := range s.Partitions {
		v.Partitions = append(v.Partitions, livePartition(&s, &s.Partitions[i]))
	}
	return v
}

func livePartition(s *status.Status, a *status.Active) partition {
	p := partition{
		Name: a.Name, Used: a.UsedBytes, Peak: a.UsedPeakBytes, Unread: a.Eviction == nil, NoPods: s.PodsUnknown,
	}
	if a.LimitBytes != nil {
		p.Limit = *a.LimitBytes
	}
	for i := range s.Pods {
		if pod := &s.Pods[i]; pod.Misplaced > 0 && pod.Member && pod.Belongs == a.Name {
			p.Misplaced++
		}
	}
	e := a.Eviction
	if e == nil {
		return p
	}
	p.Threshold = thresholds.Nearest(e.HardBytes, e.SoftBytes)
	p.Bad = e.Crossed != ""
	p.State = margin(p.Used, p.Limit, p.Threshold)
	if e.Crossed != "" {
		p.State = fmt.Sprintf("%s threshold crossed", e.Crossed)
	}
	if e.Mode != "on" {
		p.State += ", eviction " + e.Mode
	}
	for i := range e.Open {
		p.Events = append(p.Events, "evicting "+e.Open[i].Namespace+"/"+e.Open[i].Name)
	}
	if last := newest(e.Last); last != nil {
		did := "evicted"
		if last.DryRun {
			did = "would have evicted"
		}
		at := last.Time.Local().Format(time.DateTime)
		p.Events = append(p.Events, fmt.Sprintf("%s %s/%s at %s", did, last.Namespace, last.Name, at))
	}
	for i := range e.Order {
		c := &e.Order[i]
		p.Pods = append(p.Pods, pod{c.Namespace, c.Name, c.Priority, c.WorkingSetBytes, c.RequestBytes, string(c.Skip)})
	}
	return p
}

func newest(list []evict.Eviction) *evict.Eviction {
	if len(list) == 0 {
		return nil
	}
	return &list[len(list)-1]
}

// margin describes the memory that is left until the first eviction, or until the limit.
func margin(used, limit, threshold uint64) string {
	switch end := limit - min(limit, threshold); {
	case limit == 0:
		return "no limit"
	case used > end:
		return bytesize.Text(used-end) + " too much"
	case threshold == 0:
		return bytesize.Text(end-used) + " until the limit"
	default:
		return bytesize.Text(end-used) + " until an eviction"
	}
}

// past returns the scene of a moment of the history: of the last sample that is not after it.
func past(h samples.History, at time.Time) scene {
	v := scene{At: at, Past: true}
	for _, name := range h.Partitions {
		of := h.Of(name)
		list := of.Between(at.Add(-longest), at)
		if len(list) == 0 {
			continue
		}
		if p := list[len(list)-1].Partition; p != nil {
			v.Partitions = append(v.Partitions, pastPartition(of, name, at, p))
		}
	}
	if len(v.Partitions) == 0 {
		v.Notes = append(v.Notes, note{"the node had no partition", false})
	}
	return v
}

// longest is the length of the longest samples.
const longest = 10 * time.Minute

func pastPartition(h samples.History, name unitname.PartitionName, at time.Time, u *samples.Usage) partition {
	p := partition{
		Name: name, Used: u.UsedPeakBytes, Limit: u.LimitBytes, Threshold: thresholds.Nearest(u.HardBytes, u.SoftBytes),
	}
	p.State = margin(p.Used, p.Limit, p.Threshold)
	p.Bad = strings.HasSuffix(p.State, "too much") || u.KilledAtLimit > 0
	if u.Pods != nil {
		p.Misplaced = u.Pods.Waiting
	}
	p.State += fmt.Sprintf(", CPU %dm, memory pressure %.1f%%", u.MilliCPU, u.PressurePercent)
	for _, evicted := range u.Evicted {
		p.Events = append(p.Events, "evicted "+evicted)
	}
	if killed := u.KilledAtLimit + u.KilledElsewhere; killed > 0 {
		p.Events = append(p.Events, fmt.Sprintf("the kernel killed %d processes", killed))
	}
	members, read := h.MembersAt(at)
	if len(members) == 0 {
		p.NoPods = "the history has none of this time"
	} else if !read.Equal(at) {
		p.Events = append(p.Events, "pods of "+read.Local().Format(time.TimeOnly))
	}
	for i := range members {
		m := &members[i]
		p.Pods = append(p.Pods, pod{m.Namespace, m.Name, m.Priority, m.WorkingSetBytes, m.RequestBytes, ""})
	}
	slices.SortStableFunc(p.Pods, func(a, b pod) int { return cmp.Compare(b.Uses, a.Uses) })
	return p
}
