package recommend

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"nodepartition/internal/bytesize"
	"nodepartition/internal/output"
)

// allServices is the part of a node that kubeReserved and systemReserved are for together.
const allServices = "the services of the node"

// Shape collects the nodes that get one recommendation.
type Shape struct {
	name  string
	nodes []measuredNode
	// without lists the nodes of which no usage is known.
	without []string
	// present counts the nodes by the start of an hour, in seconds since 1970.
	present  map[int64]int
	seconds  int64
	from, to time.Time
}

// NewShape returns a shape without a node.
func NewShape(name string) *Shape { return &Shape{name: name, present: map[int64]int{}} }

// Add adds a node, and keeps what a recommendation needs of it: some hundred bytes.
func (s *Shape) Add(h NodeHistory) {
	list := withPartition(h.Hours)
	if len(list) == 0 {
		s.without = append(s.without, h.Name)
		return
	}
	for i := range list {
		s.seconds += int64(list[i].Seconds)
		s.present[list[i].Time.Unix()]++
	}
	if first := list[0].Time; s.from.IsZero() || first.Before(s.from) {
		s.from = first
	}
	if last := list[len(list)-1].Time.Add(hour); last.After(s.to) {
		s.to = last
	}
	s.nodes = append(s.nodes, measureNode(h, list))
}

// ShapeOptions holds what a recommendation for a shape depends on beside its nodes.
type ShapeOptions struct {
	// AtLimit in bytes is a limit to compare all nodes with, 0 for none.
	AtLimit uint64
	// WithoutLeaks asks for the limit without what leaks have added, even if more is in use. Force
	// takes the limit with it even if it is more than twice as much.
	WithoutLeaks, Force bool
	// Doubt is the reason why the nodes may not have all that they used, "" for none.
	Doubt string
}

// ForShape is a recommendation for the nodes of a shape. Its JSON is for scripts: new versions add
// fields and do not change them. Amounts are in bytes.
type ForShape struct {
	Shape   string       `json:"shape"`
	Nodes   int          `json:"nodes"`
	History shapeHistory `json:"history"`
	// MemoryLimit and EvictionHard are absent without a figure that can be defended. Node is the node
	// that needs MemoryLimit.
	MemoryLimit  *Figure `json:"memoryLimit,omitempty"`
	EvictionHard *Figure `json:"evictionHard,omitempty"`
	Node         string  `json:"node,omitempty"`
	// Shares has the limits that would do for a part of the nodes.
	Shares []shapeShare `json:"shares"`
	// Reserved is for kubeReserved and systemReserved together. It is absent if the usage of the
	// services is not known.
	Reserved *Figure `json:"reserved,omitempty"`
	// AtLimit has the nodes on which memory would have been low at the limit that was asked for.
	AtLimit *shapeAtLimit `json:"atLimit,omitempty"`
	// Leaks lists what grows without returning, the largest growth first, at most shownNodes.
	Leaks []nodeLeak `json:"leaks"`
	// EvictsAtOnce means that a node uses more at the end of the history than MemoryLimit leaves.
	EvictsAtOnce bool `json:"evictsAtOnce"`
	// NoSection lists the reasons why MemoryLimit is not to be applied.
	NoSection []string `json:"noSection"`
	Warnings  []string `json:"warnings"`
}

// shapeHistory is the time that the samples of a shape cover.
type shapeHistory struct {
	// From is the start of the first hour and To the end of the last.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
	// NodeSeconds is the time of all nodes without gaps, and MostNodes the largest number of nodes in
	// an hour. Seconds is one divided by the other: the time that a node has on average, where nodes
	// come and go too.
	NodeSeconds int64 `json:"nodeSeconds"`
	MostNodes   int   `json:"mostNodes"`
	Seconds     int64 `json:"seconds"`
}

// shapeShare is the limit that would do for a part of the nodes.
type shapeShare struct {
	Percent int    `json:"percent"`
	Bytes   uint64 `json:"bytes"`
}

// shapeAtLimit has the nodes on which memory would have been low at a limit.
type shapeAtLimit struct {
	LimitBytes uint64   `json:"limitBytes"`
	HardBytes  uint64   `json:"hardBytes"`
	Nodes      int      `json:"nodes"`
	Names      []string `json:"names"`
}

// nodeLeak is a leak on a node.
type nodeLeak struct {
	Node string `json:"node"`
	Leak
}

// shownNodes is the number of nodes that are named.
const shownNodes = 5

// shares lists the parts of the nodes for which a limit is shown, in percent.
var shares = [...]int{50, 90, 99, 100}

// Recommend computes the recommendation. The order in which nodes were added does not matter.
func (s *Shape) Recommend(ctx context.Context, o ShapeOptions) ForShape {
	f := ForShape{
		Shape: s.name, Nodes: len(s.nodes), Shares: []shapeShare{}, Leaks: []nodeLeak{},
		NoSection: []string{}, Warnings: []string{},
	}
	if len(s.without) > 0 {
		f.warn("left out: %s, without the partition in that time", nodeNames(s.without))
	}
	if len(s.nodes) == 0 {
		f.noSection("no node of the shape had the partition: write a section without memoryLimit, which measures and limits nothing")
		return f
	}
	f.History = s.covered()
	covered := time.Duration(f.History.Seconds) * time.Second
	//guard: less than a day gives no figures
	if covered < leastHistory && !o.Force {
		f.noSection("the nodes have %s of history each, and figures need a day: wait", text(covered))
		return f
	}
	//guard: answers that may not be complete give no figures
	if o.Doubt != "" && !o.Force {
		f.noSection("%s", o.Doubt)
		return f
	}
	slices.SortFunc(s.nodes, func(a, b measuredNode) int { return strings.Compare(a.name, b.name) })
	by := sizing{factor: 1 + margin(covered), withoutLeaks: o.WithoutLeaks}
	by.least = s.least(&f)
	//guard: a threshold is not guessed without the CPUs of a node
	if len(f.NoSection) > 0 && !o.Force {
		return f
	}
	f.limits(s.sized(ctx, by, o), by)
	f.reserve(s.nodes, by.factor)
	f.leaks(s.nodes)
	f.judge(s.nodes)
	if o.AtLimit > 0 {
		f.atLimit(s.nodes, o.AtLimit, by.least)
	}
	if by.factor > 1+marginPart {
		f.warn("the nodes have %s of history each: the margin is %.0f %%, and what happens once a week may be missing; "+
			"from a week on it is 15 %%", text(covered), (by.factor-1)*100)
	}
	return f
}

func (f *ForShape) noSection(format string, args ...any) {
	f.NoSection = append(f.NoSection, fmt.Sprintf(format, args...))
}

func (f *ForShape) warn(format string, args ...any) {
	f.Warnings = append(f.Warnings, fmt.Sprintf(format, args...))
}

// covered returns the time that the nodes cover. A node that lived for a day shows a day, and ten
// of them in a row show ten days.
func (s *Shape) covered() shapeHistory {
	h := shapeHistory{From: s.from, To: s.to, NodeSeconds: s.seconds}
	for _, n := range s.present {
		h.MostNodes = max(h.MostNodes, n)
	}
	//guard: new nodes make the history of a shape short
	h.Seconds = h.NodeSeconds / int64(max(h.MostNodes, 1))
	return h
}

// least returns the least threshold of the nodes: they have the same CPUs, and may have the same
// pods as one on which an eviction came too late.
func (s *Shape) least(f *ForShape) uint64 {
	least, late, unknown := uint64(0), "", 0
	for i := range s.nodes {
		n := &s.nodes[i]
		if n.least == 0 {
			unknown++
		}
		least = max(least, n.least)
	}
	if unknown == len(s.nodes) {
		f.noSection("the CPUs of no node are known, and the threshold depends on them: nodepartition_least_threshold_bytes, or the node in the history, is missing; " +
			"update partition-monitor on one of the nodes")
	}
	for i := range s.nodes {
		if n := &s.nodes[i]; 2*n.late > least {
			least, late = 2*n.late, n.name
		}
	}
	if late != "" {
		f.warn("on %s the kernel killed at the limit, with a threshold of %s: the threshold is twice that", late, bytesize.Text(least/2))
	}
	return least
}

// sizedNode is the limit of a node.
type sizedNode struct {
	name  string
	limit *Figure
	// refused means that a leak needs more than is recommended.
	refused bool
}

// sized returns the limits of all nodes, in the order of their size and then of their names.
func (s *Shape) sized(ctx context.Context, by sizing, o ShapeOptions) []sizedNode {
	list := make([]sizedNode, 0, len(s.nodes))
	for i := range s.nodes {
		n := &s.nodes[i]
		c := newComputation(ctx)
		limit := c.choose(n.needs, n.leaks, by, func(uint64) Simulation { return Simulation{} })
		list = append(list, sizedNode{name: n.name, limit: limit, refused: len(c.NoSection) > 0 && !o.Force})
	}
	slices.SortStableFunc(list, func(a, b sizedNode) int { return cmp.Compare(a.limit.Bytes, b.limit.Bytes) })
	return list
}

// limits takes the largest limit of the nodes, and shows how many need less.
func (f *ForShape) limits(list []sizedNode, by sizing) {
	var refused []string
	for _, n := range list {
		if n.refused {
			refused = append(refused, n.name)
		}
	}
	if len(refused) > 0 {
		f.warn("left out: %s, with a leak that no limit is made for: give what leaks a memory limit, or restart it; "+
			"--without-leaks takes the smaller limit, and --force the larger", nodeNames(refused))
	}
	//guard: a node with a leak beyond twice its need does not size the others
	list = slices.DeleteFunc(list, func(n sizedNode) bool { return n.refused })
	if len(list) == 0 {
		f.noSection("no node is without a leak that no limit is made for")
		return
	}
	largest := list[len(list)-1]
	first := slices.IndexFunc(list, func(n sizedNode) bool { return n.limit.Bytes == largest.limit.Bytes })
	largest = list[first]
	limit := largest.limit.clone()
	limit.Why[0] = largest.name + " needs most: " + limit.Why[0]
	f.MemoryLimit, f.Node = limit, largest.name
	hard := &Figure{Bytes: threshold(limit.Bytes, by.least)}
	hard.why("the default: 5 %% of memoryLimit, at least 32Mi, and what the CPUs of the nodes need")
	f.EvictionHard = hard
	for _, percent := range shares {
		rank := int(math.Ceil(float64(percent) / 100 * float64(len(list))))
		f.Shares = append(f.Shares, shapeShare{Percent: percent, Bytes: list[rank-1].limit.Bytes})
	}
}

// reserve computes the reservations together: which services belong to the kubelet and the runtime
// is not in the metrics.
func (f *ForShape) reserve(nodes []measuredNode, factor float64) {
	var most *measuredNode
	for i := range nodes {
		if n := &nodes[i]; n.services.bytes > 0 && (most == nil || n.services.bytes > most.services.bytes) {
			most = n
		}
	}
	if most == nil {
		return
	}
	p := most.services
	need := uint64(float64(p.bytes) * factor)
	f.Reserved = &Figure{Bytes: roundUp(need, reserveStep), PeakBytes: p.bytes, PeakTime: p.at}
	f.Reserved.why("%s used most: the largest working sets of its services in an hour are %s, at %s", most.name, bytesize.Text(p.bytes), output.Time(p.at))
	f.Reserved.why("plus %.0f %% is %s, rounded up to a multiple of %s", (factor-1)*100, bytesize.Text(need), bytesize.Text(reserveStep))
}

// leaks lists the leaks that have grown most.
func (f *ForShape) leaks(nodes []measuredNode) {
	var all []nodeLeak
	var of []string
	for i := range nodes {
		n := &nodes[i]
		if len(n.leaks)+len(n.serviceLeaks) > 0 {
			of = append(of, n.name)
		}
		for _, l := range slices.Concat(n.leaks, n.serviceLeaks) {
			all = append(all, nodeLeak{Node: n.name, Leak: l})
		}
	}
	if len(all) == 0 {
		return
	}
	slices.SortStableFunc(all, func(a, b nodeLeak) int { return -cmp.Compare(a.GrowthBytes, b.GrowthBytes) })
	f.Leaks = append(f.Leaks, all[:min(len(all), shownNodes)]...)
	f.warn("memory grows without returning on %s: partition-monitor recommend there names the pod, if the history has pods (--history-members)",
		nodeNames(of))
}

// judge finds what is missing, and the reasons why the limit is not to be applied.
func (f *ForShape) judge(nodes []measuredNode) {
	var noRequests []string
	node := uint64(0)
	for i := range nodes {
		n := &nodes[i]
		if !n.requests {
			noRequests = append(noRequests, n.name)
		}
		if n.memoryBytes > 0 && (node == 0 || n.memoryBytes < node) {
			node = n.memoryBytes
		}
	}
	if len(noRequests) > 0 {
		f.warn("what the members request on %s is not known, or nothing: a pod that uses no more than it requests may be evicted there", nodeNames(noRequests))
	}
	if f.MemoryLimit == nil {
		return
	}
	limit, hard := f.MemoryLimit.Bytes, f.EvictionHard.Bytes
	if node > 0 && limit >= node {
		f.noSection("the limit of %s is not below the memory of a node, %s: it protects nothing; "+
			"give the pods of the partition less to do, or the nodes more memory", bytesize.Text(limit), bytesize.Text(node))
	}
	var evicts []string
	for i := range nodes {
		if nodes[i].atEnd > limit-hard {
			evicts = append(evicts, nodes[i].name)
		}
	}
	if len(evicts) > 0 {
		f.EvictsAtOnce = true
		f.warn("the recommended limit evicts as soon as it is in force on %s, which use more at the end of the history: restart what leaks there first",
			nodeNames(evicts))
	}
}

// atLimit finds the nodes on which memory would have been low at a limit.
func (f *ForShape) atLimit(nodes []measuredNode, limit, least uint64) {
	a := &shapeAtLimit{LimitBytes: limit, HardBytes: threshold(limit, least), Names: []string{}}
	for i := range nodes {
		if nodes[i].with.highest+a.HardBytes <= limit {
			continue
		}
		a.Nodes++
		if len(a.Names) < shownNodes {
			a.Names = append(a.Names, nodes[i].name)
		}
	}
	f.AtLimit = a
}

// nodeNames lists nodes in a sentence, and not more than a reader wants.
func nodeNames(names []string) string {
	names = slices.Sorted(slices.Values(names))
	shown := strings.Join(names[:min(len(names), shownNodes)], ", ")
	switch {
	case len(names) == 1:
		return "node " + shown
	case len(names) > shownNodes:
		return fmt.Sprintf("%d nodes (%s and others)", len(names), shown)
	}
	return fmt.Sprintf("%d nodes (%s)", len(names), shown)
}
