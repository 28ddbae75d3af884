package web

import (
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"nodepartition/internal/bytesize"
	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/oneline"
	"nodepartition/internal/state"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/podmove"
)

// The numbers of rows of each table that are shown at once, and at most.
const (
	shownCandidates = 5
	shownEvents     = 5
	shownMisplaced  = 10
	shownMembers    = 10
	mostRows        = 300
)

// view holds the values for page.html.
type view struct {
	Style template.CSS
	// Node and Version may be empty.
	Node, Version string
	At            moment
	// Refresh is the number of seconds after which a browser asks again; 0 for never.
	Refresh    int
	Verdict    verdict
	Partitions []partitionView
	// Pass is the end of the last pass, zero before the first.
	Pass    moment
	Sources []source
	// Others holds the pods that no partition has to do with.
	Others rows[podView]
}

// partitionView is a partition with all that is known of it.
type partitionView struct {
	// ID distinguishes the elements of the partition.
	ID   string
	Name unitname.PartitionName
	// Problem is the reason why the memory is not known, empty if it is. Without it Memory and Next
	// are empty.
	Problem string
	Memory  memoryView
	// Chart is nil without a history, and NoChart says why there is none.
	Chart   *chart
	NoChart string
	Next    nextView
	Events  rows[eventView]
	// Misplaced holds the members that are not where they belong, and pods that are in the partition
	// and do not belong there, Members the other members.
	Misplaced, Members rows[podView]
}

// memoryView is the memory of a partition by the last poll.
type memoryView struct {
	evict.Report
	Read    moment
	Used    uint64
	Limited bool
	// Margin describes the memory that is left, empty without a limit or a threshold.
	Margin string
	State  level
	Bar    bar
}

// nextView lists who would be evicted.
type nextView struct {
	// Note says why eviction is off, empty if it is on.
	Note string
	// Problem has what could not be read.
	Problem string
	// Estimated means that there is no Pods API.
	Estimated          bool
	Candidates, Spared rows[candidateView]
}

// candidateView is a pod in the order of evictions.
type candidateView struct {
	Turn string
	Pod  string
	// About has its class and priority.
	About string
	Uses  uint64
	Why   string
}

// podView is a pod with its place.
type podView struct {
	Pod, About string
	Containers int
	// Reason is the reason why it is not in its place, empty if it is.
	Reason string
	// Place describes the place.
	Place string
}

// eventView is an event with its age.
type eventView struct {
	At   moment
	Text string
	Bad  bool
	Once bool
	// Times is the number of times.
	Times int
}

// source is a source of events and answers.
type source struct {
	Name      string
	Connected bool
	// Missing has what is missing without it.
	Missing string
}

// missing has what is missing without a connection.
var missing = map[string]string{
	"systemd": "No slice is made, changed or removed.",
	"runtime": "The pods below are from the last pass. New ones are not found, and no container is stopped.",
	"kubelet": "Requests and priorities of pods are estimates, and it is not known which containers would be started again.",
	"nri":     "New containers are moved after their start, and not placed at their creation.",
}

// moment is a time with its age.
type moment struct {
	time.Time
	now time.Time
}

// Text returns the time of day, and another day than today too.
func (m moment) Text() string {
	const day = time.DateOnly
	if m.UTC().Format(day) == m.now.UTC().Format(day) {
		return m.UTC().Format("15:04:05 MST")
	}
	return m.UTC().Format(day + " 15:04:05 MST")
}

// Hour returns the hour of the day.
func (m moment) Hour() string { return m.UTC().Format("15:04 MST") }

// Machine returns the time for programs.
func (m moment) Machine() string { return m.UTC().Format(time.RFC3339) }

// Age returns how long ago it was.
func (m moment) Age() string {
	age := m.now.Sub(m.Time)
	count := func(unit time.Duration, name string) string { return fmt.Sprintf("%d %s ago", age/unit, name) }
	switch {
	case age < -time.Second:
		return "in the future"
	case age < 2*time.Second:
		return "just now"
	case age < 2*time.Minute:
		return count(time.Second, "s")
	case age < 2*time.Hour:
		return count(time.Minute, "min")
	case age < 48*time.Hour:
		return count(time.Hour, "h")
	}
	return count(24*time.Hour, "days")
}

// rows is a list of which the page shows a part at once.
type rows[T any] struct {
	Shown, Folded []T
	// Left counts those that the page leaves out.
	Left int
}

func fold[T any](all []T, shown int) rows[T] {
	//guard: a table of the page is bounded
	left := max(0, len(all)-mostRows)
	all = all[:len(all)-left]
	shown = min(shown, len(all))
	return rows[T]{all[:shown], all[shown:], left}
}

// Len returns the number of all of them.
func (r rows[T]) Len() int { return len(r.Shown) + len(r.Folded) + r.Left }

// view reads the sources.
func (p *page) view(now time.Time) view {
	report := p.Reports.Report()
	v := view{
		Style: template.CSS(styleText), Node: clean(p.Node), Version: p.Version,
		At: moment{now, now}, Pass: moment{report.Time, now},
	}
	connected := p.Sources()
	for _, name := range slices.Sorted(maps.Keys(connected)) {
		v.Sources = append(v.Sources, source{name, connected[name], missing[name]})
	}
	for i, of := range p.Partitions() {
		v.Partitions = append(v.Partitions, p.partition(fmt.Sprint("partition-", i), of, report, now))
	}
	var others []podView
	for i := range report.Pods {
		if pod := &report.Pods[i]; concerned(pod) == unitname.Default {
			others = append(others, newPodView(pod))
		}
	}
	v.Others = fold(others, 0)
	v.Verdict = judge(v, p.Alive(), p.Ready())
	return v
}

func (p *page) partition(id string, of Partition, report podmove.Report, now time.Time) partitionView {
	v := partitionView{ID: id, Name: of.Name}
	poll := of.Evictor.Report()
	outlook, err := of.Evictor.Outlook()
	if poll.Time.IsZero() {
		v.Problem = p.unread(of.Name)
	} else {
		v.Memory, v.Next = newMemoryView(poll, now), newNextView(outlook, poll, err)
	}
	v.Events = fold(events(outlook, of.Happened(), now), shownEvents)
	switch {
	case p.History == nil:
		v.NoChart = "No history is kept: --history keeps one."
	case p.past.err != nil:
		v.NoChart = "The history cannot be read: " + clean(p.past.err.Error())
	default:
		if v.Chart = newChart(p.past.history.Of(of.Name).Minutes, now); v.Chart == nil {
			v.NoChart = "The history has no sample of it in the last hours yet."
		}
	}
	var misplaced, members []podView
	for i := range report.Pods {
		pod := &report.Pods[i]
		switch {
		case concerned(pod) != of.Name:
		case pod.Misplaced > 0 || pod.Reason != "":
			misplaced = append(misplaced, newPodView(pod))
		default:
			members = append(members, newPodView(pod))
		}
	}
	v.Misplaced, v.Members = fold(misplaced, shownMisplaced), fold(members, shownMembers)
	return v
}

// concerned returns the partition that has to do with a pod: it is a member, or in its slice.
func concerned(pod *podmove.PodReport) unitname.PartitionName {
	if pod.Member {
		return pod.Belongs
	}
	return pod.Partition()
}

// unread returns why the memory of a partition was not read.
func (p *page) unread(name unitname.PartitionName) string {
	switch stat, err := p.Cgroups.Stat(unitname.CgroupPath(name.Slice())); {
	case errors.Is(err, fs.ErrNotExist):
		return "It is not active: its slice does not exist."
	case err != nil:
		return "Its memory cannot be read: " + clean(err.Error())
	case !stat.HasMemory:
		return "Its memory is not known: the memory controller is off."
	}
	return "Its memory was not read yet."
}

func newMemoryView(poll evict.Report, now time.Time) memoryView {
	m := memoryView{
		Report: poll, Read: moment{poll.Time, now}, Used: poll.Memory.Used(), Limited: poll.Limit != cgroupfs.Unlimited,
	}
	if m.Limited {
		m.Margin = state.Margin(poll.Available, poll.Hard, poll.Soft)
	}
	m.State = stateOf(m)
	m.Bar = newBar(m)
	return m
}

func newNextView(o evict.Outlook, poll evict.Report, err error) nextView {
	v := nextView{}
	if err != nil {
		v.Problem = clean(err.Error())
	}
	switch {
	case o.Off && poll.Limit != cgroupfs.Unlimited:
		v.Note = "Eviction is off. This would be the order."
	case poll.Limit == cgroupfs.Unlimited:
		v.Note = "Without a memory limit no pod is evicted. This would be the order."
	case o.DryRun:
		v.Note = "Evictions are only reported (dry run)."
	}
	var candidates, spared []candidateView
	for i := range o.Order {
		c := newCandidateView(&o.Order[i])
		v.Estimated = v.Estimated || o.Order[i].Estimated
		c.Turn = state.Turn(o.Order[i].Skip, len(candidates))
		if o.Order[i].Skip != "" {
			spared = append(spared, c)
			continue
		}
		candidates = append(candidates, c)
	}
	v.Candidates, v.Spared = fold(candidates, shownCandidates), fold(spared, 0)
	return v
}

func newCandidateView(c *evict.Candidate) candidateView {
	v := candidateView{Pod: podName(c.Namespace, c.Name), Uses: c.Usage.WorkingSet, Why: why(c)}
	if c.Unknown {
		v.Pod = "pod " + clean(c.UID)
	}
	about := []string{clean(string(c.QoS)), fmt.Sprintf("priority %d", c.Priority)}
	if c.Estimated {
		about[1] = "priority estimated"
	}
	v.About = strings.Join(about, ", ")
	return v
}

// skipped has the reasons for which a pod is not evicted in words.
var skipped = map[evict.Skip]string{
	evict.SkipStatic:          "a static pod",
	evict.SkipNodeCritical:    "has the priority of system-node-critical",
	evict.SkipClusterCritical: "has the priority of system-cluster-critical",
	evict.SkipPriorityUnknown: "Guaranteed, and its priority is not known",
	evict.SkipWithinRequest:   "within its request, while others have taken more than is missing",
	evict.SkipStays:           "its processes have ended, and its memory is still there",
}

// why returns what ranks a pod.
func why(c *evict.Candidate) string {
	if c.Skip != "" {
		return cmp.Or(skipped[c.Skip], string(c.Skip))
	}
	used, request := c.Usage.WorkingSet, c.Request
	switch {
	case c.Unknown:
		return "not identified yet"
	case !c.Measured:
		return "its usage cannot be read"
	case request == 0:
		return "requests nothing"
	case used > request:
		return fmt.Sprintf("%s more than it requests (%s)", bytesize.Text(used-request), bytesize.Text(request))
	}
	return fmt.Sprintf("within its request (%s)", bytesize.Text(request))
}

// events returns what has happened in a partition, the newest first.
func events(o evict.Outlook, happened []Event, now time.Time) []eventView {
	list := make([]eventView, 0, len(o.Open)+len(o.Last)+len(happened))
	for i := range o.Open {
		list = append(list, eviction(&o.Open[i], "is under way", now))
	}
	for i := range o.Last {
		list = append(list, eviction(&o.Last[i], "", now))
	}
	for _, e := range happened {
		list = append(list, eventView{moment{e.Time, now}, clean(e.Text), e.Bad, e.Times <= 1, e.Times})
	}
	slices.SortStableFunc(list, func(a, b eventView) int { return b.At.Compare(a.At.Time) })
	return list
}

// eviction returns an eviction as an event.
func eviction(e *evict.Eviction, state string, now time.Time) eventView {
	what := "evicted"
	if e.Method == evict.Restart {
		what = "stopped to be started again"
	}
	if e.DryRun {
		what = "would have been evicted (dry run)"
	}
	text := fmt.Sprintf("%s was %s below the %s threshold. It used %s and requested %s, and %s were available.",
		podName(e.Namespace, e.Name), what, e.Threshold,
		bytesize.Text(e.WorkingSetBytes), bytesize.Text(e.RequestBytes), bytesize.Text(e.AvailableBytes))
	if e.DryRun {
		text = strings.Replace(text, " was would", " would", 1)
	}
	if state != "" {
		text += " That " + state + "."
	}
	if e.Problem != "" {
		text += " Problem: " + clean(e.Problem)
	}
	return eventView{At: moment{e.Time, now}, Text: text, Bad: e.Problem != "", Once: true}
}

func newPodView(p *podmove.PodReport) podView {
	v := podView{
		Pod: podName(p.Namespace, p.Name), About: clean(string(p.QoS)), Containers: p.Containers,
		Reason: clean(string(p.Reason)), Place: clean(p.Place()),
	}
	if p.Reason != "" || p.Misplaced > 0 {
		v.Reason = cmp.Or(v.Reason, "misplaced")
		v.About = clean(fmt.Sprintf("%s, %d of %d containers in %s", p.QoS, p.Misplaced, p.Containers, p.Slice))
	} else {
		v.Place = cmp.Or(v.Place, "in its place")
	}
	return v
}

func podName(namespace, name string) string { return clean(namespace) + "/" + clean(name) }

// clean returns foreign text on one line, cut if it is long. A question mark is in place of what
// would turn the text after it around.
func clean(text string) string {
	const most = 400
	text = strings.Map(func(r rune) rune {
		//guard: a name does not turn the text after it around
		if unicode.Is(unicode.Bidi_Control, r) {
			return '?'
		}
		return r
	}, oneline.Terminal(text))
	if len(text) <= most {
		return text
	}
	end := most
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
