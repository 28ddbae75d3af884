package node

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"node-partition.io/node-partition/internal/output"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/sizing"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/internal/text"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// Level is the urgency of a fact.
type Level int

// The levels.
const (
	Good Level = iota
	Caution
	Alarm
)

// Fact is a line about a node or a partition. The Name is empty where it continues the one before.
type Fact struct {
	Level      Level
	Name, Text string
}

// Table is a list for people, with the names of its columns.
type Table struct {
	Head []string
	Rows [][]string
}

// Facts returns what there is to say of the node as a whole.
func Facts(s *state.Status) []Fact {
	var facts []Fact
	add := func(l Level, name, format string, args ...any) {
		facts = append(facts, Fact{l, name, text.Terminal(fmt.Sprintf(format, args...))})
	}
	if len(s.Partitions) == 0 {
		add(Caution, "Partition", "none is active")
	}
	if len(s.NodeResource) > 0 {
		list := make([]string, 0, len(s.NodeResource))
		for _, one := range slices.Sorted(maps.Keys(s.NodeResource)) {
			list = append(list, fmt.Sprintf("%s %d", partition.WorkloadResource(one), s.NodeResource[one]))
		}
		add(Good, "On the Node", "%s", strings.Join(list, ", "))
	}
	if t := s.Trial; t != nil {
		add(Good, "Trial", "of %s until %s; partition-monitor keep makes it permanent", t.From, t.Until.Format(TimeOfDay))
	}
	ready := Caution
	if s.Service == "ready" {
		ready = Good
	}
	add(ready, "Service", "%s", s.Service)
	if s.Problem != "" {
		add(Alarm, "Problem", "%s", s.Problem)
	}
	if s.PodsUnknown != "" {
		add(Caution, "Pods", "not shown, nor the order of evictions: %s", s.PodsUnknown)
	}
	if count := s.Misplaced(); count > 0 {
		add(Caution, "Misplaced", "%d of %d pods", count, len(s.Pods))
	}
	for _, o := range s.Outlived {
		add(Caution, "Outlived", "%s in %s: its processes have outlived their pod", o.Scope, o.Slice)
	}
	return facts
}

// PartitionFacts returns what there is to say of a partition apart from its evictions.
func PartitionFacts(p *state.Partition) []Fact {
	var facts []Fact
	add := func(name, format string, args ...any) {
		facts = append(facts, Fact{Good, name, text.Terminal(fmt.Sprintf(format, args...))})
	}
	add("Partition", "%s", p.Slice)
	if len(p.Types) > 0 {
		add("Types", "%s", strings.Join(p.Types, ", "))
	}
	add("Namespaces", "%s", strings.Join(p.Namespaces, ", "))
	limit := "no limit"
	if p.LimitBytes != nil {
		limit = text.Bytes(*p.LimitBytes)
	}
	add("Memory", "%s of %s", text.Bytes(p.MemoryBytes), limit)
	if p.UsedBytes > 0 {
		peak := ""
		if p.UsedPeakBytes > 0 {
			most, minutes := text.Bytes(p.UsedPeakBytes), evict.PeakWindow.Minutes()
			peak = fmt.Sprintf(", %s at most in the last %.0f minutes", most, minutes)
		}
		add("Used", "%s as eviction counts it%s", text.Bytes(p.UsedBytes), peak)
	}
	if d := p.LastDay; d != nil {
		most, at := text.Bytes(d.PeakBytes), output.Time(d.PeakTime)
		add("Last day", "%s at most, at %s, of %s", most, at, sizing.Text(d.Length()))
	}
	if p.SwapBytes > 0 {
		add("Swap", "%s", text.Bytes(p.SwapBytes))
	}
	if p.MinBytes > 0 || p.LowBytes > 0 {
		low := max(p.MinBytes, p.LowBytes)
		add("Protected", "%s always, %s if possible", text.Bytes(p.MinBytes), text.Bytes(low))
	}
	if p.CPUs != "" {
		exclusive := ""
		if p.Exclusive {
			exclusive = ", without other pods"
		}
		add("CPUs", "%s%s", p.CPUs, exclusive)
	}
	add("CPU weight", "%d", p.CPUWeight)
	return facts
}

// EvictionFacts returns what there is to say of the evictions in a partition; nothing if their
// state could not be read.
func EvictionFacts(p *state.Partition) []Fact {
	e := p.Eviction
	if e == nil {
		return nil
	}
	var content strings.Builder
	content.WriteString(e.Mode)
	switch {
	case e.Mode == "off":
	case e.NoLimit:
		content.WriteString(", without a memory limit: the partition only sets CPU weights and reports usage")
	default:
		fmt.Fprintf(&content, ", %s available", text.Bytes(e.AvailableBytes))
		if e.HardBytes+e.SoftBytes == 0 {
			content.WriteString(", without a threshold")
		}
		if e.HardBytes > 0 {
			fmt.Fprintf(&content, ", evicts below %s", text.Bytes(e.HardBytes))
		}
		if e.SoftBytes > 0 {
			fmt.Fprintf(&content, ", or below %s for %s", text.Bytes(e.SoftBytes), e.SoftGrace)
		}
		if left := margin(e.AvailableBytes, e.HardBytes, e.SoftBytes); left != "" {
			fmt.Fprintf(&content, ": %s", left)
		}
		if e.Crossed != "" {
			fmt.Fprintf(&content, "; BELOW THE %s THRESHOLD NOW", e.Crossed)
			if !slices.ContainsFunc(e.Order, func(c state.Candidate) bool { return c.Skip == "" }) {
				content.WriteString(", and no pod can be evicted: the kernel will kill at the limit")
			}
		}
	}
	facts := []Fact{{level(p), "Eviction", text.Terminal(content.String())}}
	if evict.LeftBehind(e.OwnerlessBytes, len(e.Order)) > 0 {
		facts = append(facts, Fact{Text: text.Bytes(e.OwnerlessBytes) + " belong to no pod that runs in it"})
	}
	if e.Estimated {
		facts = append(facts, Fact{Text: "requests and priorities are estimated: the kubelet serves no Pods API"})
	}
	return facts
}

// level returns how short of memory a partition is. It is nearly full where the alert
// NodePartitionLowMargin fires.
func level(p *state.Partition) Level {
	e := p.Eviction
	nearest := max(e.HardBytes, e.SoftBytes)
	switch {
	case e.Crossed != "":
		return Alarm
	case e.Mode == "off" || e.NoLimit || p.LimitBytes == nil || nearest == 0:
		return Good
	case e.AvailableBytes < nearest:
		return Alarm
	case e.AvailableBytes-nearest < min(nearest, *p.LimitBytes/20):
		return Caution
	}
	return Good
}

// margin describes the memory of which available bytes are left, until the nearest threshold or
// beyond the hard one first. It is empty without a threshold.
func margin(available, hard, soft uint64) string {
	var content string
	switch {
	case hard == 0 && soft == 0:
		return ""
	case available < hard:
		return text.Bytes(hard-available) + " beyond the hard threshold"
	case soft <= hard:
		return text.Bytes(available-hard) + " until an eviction"
	case available < soft:
		content = text.Bytes(soft-available) + " beyond the soft threshold"
	default:
		content = text.Bytes(available-soft) + " until the soft threshold"
	}
	if hard > 0 {
		content += ", " + text.Bytes(available-hard) + " until an eviction at once"
	}
	return content
}

// Order returns the pods of a partition in the order of evictions.
func Order(e *state.Eviction) Table {
	t := Table{Head: []string{"EVICTION ORDER", "NAMESPACE", "POD", "PRIORITY", "WORKING SET", "REQUESTS"}}
	candidates := 0
	for _, c := range e.Order {
		place := turn(c.Skip, candidates)
		if c.Skip == "" {
			candidates++
		} else {
			place += ": " + string(c.Skip)
		}
		t.add(place, c.Namespace, c.Name, strconv.Itoa(int(c.Priority)),
			text.Bytes(c.WorkingSetBytes), text.Bytes(c.RequestBytes))
	}
	return t
}

// turn describes the turn of a pod in the order of evictions, after so many candidates.
func turn(skip evict.Skip, after int) string {
	switch {
	case skip == evict.SkipWithinRequest, skip == evict.SkipUnreclaimable:
		return "not now"
	case skip != "":
		return "never"
	case after == 0:
		return "next"
	}
	return fmt.Sprintf("%d.", after+1)
}

// shownEvictions is the number of ended evictions in a table.
const shownEvictions = 5

// Evictions returns the last evictions, and those in progress.
func Evictions(e *state.Eviction) Table {
	t := Table{Head: []string{"EVICTED", "NAMESPACE", "POD", "THRESHOLD", "METHOD", "USED", "REQUESTED", "REMARKS"}}
	row := func(of evict.Eviction, remark string) {
		t.add(of.Time.Format(time.RFC3339), of.Namespace, of.Name, string(of.Threshold), string(of.Method),
			text.Bytes(of.WorkingSetBytes), text.Bytes(of.RequestBytes), remark)
	}
	for _, of := range e.Last[max(0, len(e.Last)-shownEvictions):] {
		remark := cmp.Or(of.Problem, "-")
		if of.DryRun {
			remark = "dry run"
		}
		row(of, remark)
	}
	for _, of := range e.Open {
		row(of, "under way")
	}
	return t
}

// PodsTable returns a row for each pod.
func PodsTable(pods []report.Pod) Table {
	t := Table{Head: []string{"NAMESPACE", "POD", "QOS", "MEMBER", "PARTITION", "CONTAINERS", "MISPLACED", "WHY"}}
	for i := range pods {
		pod := &pods[i]
		member, why := "no", cmp.Or(pod.Place(), "-")
		if pod.Member {
			member = "yes"
		}
		if pod.Reason != "" {
			why = string(pod.Reason) + ": " + pod.Place()
		}
		t.add(pod.Namespace, pod.Name, string(pod.QoS), member, string(pod.Partition()),
			strconv.Itoa(pod.Containers), strconv.Itoa(pod.Misplaced), why)
	}
	return t
}

// add adds a row. Cells with texts of others stay in one line.
func (t *Table) add(cells ...string) {
	for i := range cells {
		cells[i] = text.Terminal(cells[i])
	}
	t.Rows = append(t.Rows, cells)
}
