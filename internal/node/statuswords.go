package node

import (
	"cmp"
	"fmt"
	"slices"
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
	switch t := s.Trial; {
	case t == nil:
	case t.Until.IsZero():
		add(Caution, "Trial", "of %s, without a known end", t.From)
	default:
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
		add(Caution, "Pods", "not shown: %s", s.PodsUnknown)
	}
	if count := (report.Report{Pods: Others(s)}).Misplaced(); count > 0 {
		add(Caution, "Misplaced", "%s of no active partition", text.Counted(count, "pod"))
	}
	for _, o := range s.Outlived {
		add(Caution, "Outlived", "%s in %s: its processes have outlived their pod", o.Scope, o.Slice)
	}
	return facts
}

// Verdict returns what an operator should know of a partition, named after it: whether memory is
// short, and which of its pods are not where they belong.
func Verdict(s *state.Status, p *state.Partition) Fact {
	verdict := Fact{Level: level(p), Name: string(p.Name)}
	var parts []string
	if e := p.Eviction; e != nil && e.Crossed != "" {
		parts = append(parts, fmt.Sprintf("BELOW THE %s THRESHOLD", strings.ToUpper(string(e.Crossed))))
		if !slices.ContainsFunc(e.Order, func(c state.Candidate) bool { return c.Skip == "" }) {
			parts = append(parts, "no pod can be evicted: the kernel will kill at the limit")
		}
	} else if verdict.Level != Good {
		parts = append(parts, "nearly full")
	}
	pods := report.Report{Pods: podsOf(s, p.Name)}
	all := text.Counted(len(pods.Pods), "pod")
	switch misplaced := pods.Misplaced(); {
	case misplaced > 0:
		verdict.Level = max(verdict.Level, Caution)
		parts = append(parts, fmt.Sprintf("%d of %s not in place", misplaced, all))
	case len(pods.Pods) > 0:
		parts = append(parts, all+" in place")
	case s.PodsUnknown == "":
		parts = append(parts, "no pods")
	default:
		parts = append(parts, "active")
	}
	verdict.Text = strings.Join(parts, "; ")
	return verdict
}

// PartitionFacts returns what there is to say of a partition, its memory first.
func PartitionFacts(p *state.Partition) []Fact {
	var facts []Fact
	add := func(name, format string, args ...any) {
		facts = append(facts, Fact{Good, name, text.Terminal(fmt.Sprintf(format, args...))})
	}
	memory := text.Bytes(p.UsedBytes) + " used"
	if p.LimitBytes != nil {
		memory += " of " + text.Bytes(*p.LimitBytes)
	}
	if p.LentBytes > 0 {
		memory += fmt.Sprintf(" (%s lent by the node)", text.Bytes(p.LentBytes))
	}
	if p.UsedPeakBytes > 0 {
		memory += fmt.Sprintf(", %s at most in %.0f minutes", text.Bytes(p.UsedPeakBytes), evict.PeakWindow.Minutes())
	}
	if p.MemoryBytes > p.UsedBytes {
		memory += fmt.Sprintf(", and %s of page cache", text.Bytes(p.MemoryBytes-p.UsedBytes))
	}
	add("Memory", "%s", memory)
	facts = append(facts, evictionFacts(p)...)
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
	cpus := cmp.Or(p.CPUs, "all")
	if p.Exclusive {
		cpus += ", without other pods"
	}
	add("CPUs", "%s, weight %d", cpus, p.CPUWeight)
	if len(p.Types) > 0 {
		add("Types", "%s", strings.Join(p.Types, ", "))
	}
	if len(p.Namespaces) > 0 {
		add("Namespaces", "%s", strings.Join(p.Namespaces, ", "))
	}
	return facts
}

// evictionFacts returns when pods of a partition are evicted; nothing if the state of evictions
// could not be read.
func evictionFacts(p *state.Partition) []Fact {
	e := p.Eviction
	if e == nil {
		return nil
	}
	var when []string
	below := func(threshold uint64, after string) {
		far := "after " + text.Bytes(e.AvailableBytes-min(threshold, e.AvailableBytes)) + " more"
		if e.AvailableBytes < threshold {
			far = "NOW by " + text.Bytes(threshold-e.AvailableBytes)
		}
		when = append(when, fmt.Sprintf("below %s available%s, %s", text.Bytes(threshold), after, far))
	}
	switch {
	case e.Mode == "off":
		when = []string{"off"}
	case e.NoLimit:
		when = []string{"no pod, without a memory limit: the partition only sets CPU weights and reports usage"}
	case e.HardBytes+e.SoftBytes == 0:
		when = []string{"no pod: there is no threshold"}
	default:
		if e.SoftBytes > e.HardBytes {
			below(e.SoftBytes, " for "+e.SoftGrace.String())
		}
		if e.HardBytes > 0 {
			below(e.HardBytes, "")
		}
		if e.Mode != "on" {
			when = append(when, e.Mode)
		}
	}
	facts := []Fact{{level(p), "Evicts", text.Terminal(strings.Join(when, "; "))}}
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
	if e == nil {
		return Good
	}
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

// inPartition reports whether a pod has to do with a partition: it is a member, or in its slice.
func inPartition(pod *report.Pod, name partition.Name) bool {
	return pod.Member && pod.Belongs == name || !pod.Member && pod.Partition() == name
}

// podsOf returns the pods that have to do with a partition.
func podsOf(s *state.Status, name partition.Name) []report.Pod {
	return slices.DeleteFunc(slices.Clone(s.Pods), func(pod report.Pod) bool { return !inPartition(&pod, name) })
}

// Others returns the pods that have to do with no active partition.
func Others(s *state.Status) []report.Pod {
	return slices.DeleteFunc(slices.Clone(s.Pods), func(pod report.Pod) bool {
		return slices.ContainsFunc(s.Partitions, func(p state.Partition) bool { return inPartition(&pod, p.Name) })
	})
}

// Members returns the pods that have to do with a partition: those that are not in place first, and
// then in the order of evictions.
func Members(s *state.Status, p *state.Partition) Table {
	rank := map[string]int{} // 0 is a pod without a turn
	var order []state.Candidate
	var turns []string
	if e := p.Eviction; e != nil {
		order, turns = e.Order, turnsOf(e)
		for i := range order {
			rank[order[i].UID] = i + 1
		}
	}
	pods := podsOf(s, p.Name)
	slices.SortStableFunc(pods, func(a, b report.Pod) int {
		return cmp.Or(cmp.Compare(b.Misplaced, a.Misplaced), cmp.Compare(rank[a.UID], rank[b.UID]))
	})
	t := Table{Head: []string{"NAMESPACE", "POD", "USED", "REQUEST", "TURN", "STATE"}}
	for i := range pods {
		used, request, turn := "-", "-", "-"
		if at := rank[pods[i].UID] - 1; at >= 0 {
			used, request, turn = text.Bytes(order[at].WorkingSetBytes), text.Bytes(order[at].RequestBytes), turns[at]
		}
		t.add(pods[i].Namespace, pods[i].Name, used, request, turn, stateOf(&pods[i]))
	}
	return t
}

// turnsOf describes the turn of each pod in the order of evictions.
func turnsOf(e *state.Eviction) []string {
	turns := make([]string, 0, len(e.Order))
	candidates := 0
	for i := range e.Order {
		skip := e.Order[i].Skip
		var turn string
		switch {
		case e.Mode == "off" || e.NoLimit:
			turn = "-"
		case skip == evict.SkipWithinRequest, skip == evict.SkipUnreclaimable:
			turn = "not now: " + string(skip)
		case skip != "":
			turn = "never: " + string(skip)
		case candidates == 0:
			turn = "next"
		default:
			turn = fmt.Sprintf("%d.", candidates+1)
		}
		if skip == "" {
			candidates++
		}
		turns = append(turns, turn)
	}
	return turns
}

// stateOf says whether a pod is where it belongs, and if not, why and what comes next.
func stateOf(pod *report.Pod) string {
	place := pod.Place()
	switch {
	case pod.Misplaced == 0 && place == "":
		return "in place"
	case pod.Misplaced == 0:
		return "in place, " + place
	case !pod.Member:
		return "NO MEMBER: " + string(pod.Reason) + ": " + place
	case pod.Misplaced < pod.Containers:
		return fmt.Sprintf("%d of %d OUTSIDE: %s: %s", pod.Misplaced, pod.Containers, pod.Reason, place)
	}
	return "OUTSIDE: " + string(pod.Reason) + ": " + place
}

// shownEvictions is the number of ended evictions in a table.
const shownEvictions = 5

// Evictions returns the evictions in progress, and the last ones, the newest first.
func Evictions(e *state.Eviction) Table {
	t := Table{Head: []string{"EVICTED", "NAMESPACE", "POD", "USED", "REQUEST", "THRESHOLD", "METHOD", "STATE"}}
	row := func(of *evict.Eviction, state string) {
		used, request := text.Bytes(of.WorkingSetBytes), text.Bytes(of.RequestBytes)
		t.add(of.Time.Format(time.RFC3339), of.Namespace, of.Name, used, request,
			string(of.Threshold), string(of.Method), state)
	}
	for i := range slices.Backward(e.Open) {
		row(&e.Open[i], "under way")
	}
	last := e.Last[max(0, len(e.Last)-shownEvictions):]
	for i := range slices.Backward(last) {
		state := cmp.Or(last[i].Problem, "done")
		if last[i].DryRun {
			state = "dry run"
		}
		row(&last[i], state)
	}
	return t
}

// PodsTable returns a row for each pod that has to do with no active partition.
func PodsTable(pods []report.Pod) Table {
	t := Table{Head: []string{"NAMESPACE", "POD", "PARTITION", "STATE"}}
	for i := range pods {
		t.add(pods[i].Namespace, pods[i].Name, string(pods[i].Partition()), stateOf(&pods[i]))
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
