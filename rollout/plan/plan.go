// Package plan decides what a rollout does next: which nodes change, what is written of those that
// have ended, and what the status says. It is pure: it reads objects and a time, and changes
// nothing.
package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/rollout/api/v1alpha1"
)

// Input is what a decision is made from.
type Input struct {
	// Partition is the NodePartition, and All has all of them.
	Partition *v1alpha1.NodePartition
	All       []*v1alpha1.NodePartition
	// Want is what its nodes are to have; Invalid is why there is none, and Warnings is said of it.
	Want     Want
	Invalid  error
	Warnings []string
	// Nodes has all Nodes, and Pods the pods of nodes of all NodePartitions.
	Nodes []*v1.Node
	Pods  []*v1.Pod
	Now   time.Time
}

// Start is a node that may change next.
type Start struct {
	Node string
	Mode Mode
	// Claim is written before the pod is made; nil if the Node has it.
	Claim *End
	// First is true if nothing has changed the node.
	First bool
}

// End is a node whose try has ended, or of which nothing remains to be known.
type End struct {
	Node *v1.Node
	// Labels has the values of labels, nil for none, and Record the annotation, empty for none.
	Labels map[string]*string
	Record string
	// Pod is deleted after the Node was written; nil for none.
	Pod *v1.Pod
	// State, Reason and Message are for an Event. State is empty if there is nothing to tell.
	State, Reason, Message string
}

// Decision is what happens next.
type Decision struct {
	Status v1alpha1.NodePartitionStatus
	// Starts has nodes that may change now, the first first, and Free how many of them may. Busy has
	// the nodes that change.
	Starts []Start
	Free   int
	Busy   []string
	// Ends has nodes to write, and Deletes pods that are of no use.
	Ends    []End
	Deletes []*v1.Pod
	// Finished is true if no node has anything of a NodePartition that is being deleted.
	Finished bool
	// Again is the time until something changes by itself; zero for never.
	Again time.Duration
}

// surveyAtOnce is the number of nodes that are asked at once by a survey.
const surveyAtOnce = 50

// The back-off of a node: after the first try, and at most.
const (
	failedBackoff, maxFailedBackoff   = 10 * time.Minute, 6 * time.Hour
	skippedBackoff, maxSkippedBackoff = time.Minute, time.Hour
)

// WantRemoved is Record.Want of a node that the partition is taken off.
const WantRemoved = "removed"

// roll is a decision that is being made.
type roll struct {
	Input
	Decision
	key  string
	pods map[string]*v1.Pod // by node
	// all is the number of nodes that maxUnavailable is a share of, done of those that are current
	// and have proven well, and left of those that the partition is still to be taken off.
	all, done, left int
	soaking         []string
	unproven        []string // of those that are current: their soak is just over
	away            []string // of those that are current
	held            bool     // the other nodes wait for those that are away
	unready         []string // of those that are to have the partition, and do not change
	fresh, retries  []Start
	skips, failures byReason
	refusals        byReason
	waits           byReason // nodes whose removal waits
	unstarted       int      // of the skipped, those that wait for another try
	seconds, taken  int      // of the nodes that are current
}

// Decide returns what happens next.
func Decide(in Input) Decision {
	r := &roll{
		Input: in, key: in.Want.Key(), pods: map[string]*v1.Pod{},
		skips: byReason{}, failures: byReason{}, refusals: byReason{}, waits: byReason{},
	}
	if _, err := metav1.LabelSelectorAsSelector(&in.Partition.Spec.NodeSelector); err != nil {
		r.Invalid = fmt.Errorf("nodeSelector: %w", err)
	}
	deleting := in.Partition.DeletionTimestamp != nil
	for _, p := range in.Pods {
		r.pods[p.Annotations[NodeAnnotation]] = p
	}
	overlap := r.sort(deleting)
	r.orphans()
	nodes := &r.Status.Nodes
	// A node that is not Ready is unavailable, too, as the DaemonSet controller counts. A removal goes
	// on without nodes that are off.
	//guard: nodes change beside as many that are not ready
	limit := r.share() - len(r.unready)
	switch {
	case deleting:
	case in.Partition.Spec.Rollout.SurveyOnly:
		limit = surveyAtOnce
	case r.done < int(in.Partition.Spec.Rollout.First):
		//guard: the first nodes are found dead before the others change
		r.soaking = append(r.soaking, r.unproven...)
		//guard: a first node that is not ready holds up the others
		limit = min(limit, int(in.Partition.Spec.Rollout.First)-r.done-len(r.away))
		r.held = len(r.away) > 0
	}
	stopped := int(nodes.Failed) > int(in.Partition.Spec.Rollout.MaxFailures)
	accepted := deleting || r.Invalid == nil && overlap == ""
	slices.SortFunc(r.fresh, byName)
	slices.SortFunc(r.retries, byName)
	r.Starts = slices.Concat(r.fresh, r.retries)
	r.Free = max(0, limit-len(r.Busy)-len(r.soaking))
	switch {
	case !accepted || !deleting && in.Partition.Spec.Rollout.Paused:
		r.Free = 0
	case stopped:
		// A node that has failed is tried again, after its back-off. No other node is put at risk.
		r.Starts = r.retries
		r.Free = max(0, min(limit+len(r.unready)-len(r.Busy)-len(r.soaking), 1-len(r.Busy)))
	}
	if r.Free > 0 && len(r.Starts) > 0 { // Pick may take none, and no Node tells of replicas
		r.later(r.Now.Add(time.Minute))
	}
	nodes.Updating = int32(len(r.Busy) + len(r.soaking))
	// a NodePartition that is being deleted waits for the pods of its nodes
	r.Finished = deleting && r.left == 0 && len(r.Busy) == 0 && len(r.Deletes) == 0
	r.Status.ObservedGeneration = in.Partition.Generation
	r.Status.Version, r.Status.SectionHash = in.Want.Version, in.Want.SectionHash
	r.Status.Conditions = r.conditions(overlap, stopped)
	return r.Decision
}

func byName(a, b Start) int { return strings.Compare(a.Node, b.Node) }

// share returns how many nodes change at once.
func (r *roll) share() int {
	n, err := intstr.GetScaledValueFromIntOrPercent(&r.Partition.Spec.Rollout.MaxUnavailable, r.all, false)
	if err != nil { // the API server has refused it
		return 1
	}
	return max(1, n)
}

// selects returns the selector of a NodePartition; one that cannot be read selects nothing.
func selects(p *v1alpha1.NodePartition) labels.Selector {
	s, err := metav1.LabelSelectorAsSelector(&p.Spec.NodeSelector)
	if err != nil {
		return labels.Nothing()
	}
	return s
}

// precedes reports whether a NodePartition is older than another one.
func precedes(a, b *v1alpha1.NodePartition) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// sort looks at each node. It returns what an older NodePartition has that this one selects, or
// nothing.
func (r *roll) sort(deleting bool) (overlap string) {
	own := selects(r.Partition)
	// a survey writes nothing, and a selector that cannot be read does not leave a node out
	spec := &r.Partition.Spec
	removes := deleting || spec.Unselected == v1alpha1.Remove && !spec.Rollout.SurveyOnly && r.Invalid == nil
	others, known := map[*v1alpha1.NodePartition]labels.Selector{}, map[string]bool{"": true}
	for _, p := range r.All {
		known[p.Name] = true
		if p.Name != r.Partition.Name {
			others[p] = selects(p)
		}
	}
	for _, n := range r.Nodes {
		set := labels.Set(n.Labels)
		var elsewhere *v1alpha1.NodePartition // the oldest of the others that select the node
		selected := own.Matches(set)
		for p, s := range others {
			if !s.Matches(set) {
				continue
			}
			if p.DeletionTimestamp != nil {
				continue // its pods keep their nodes until it is gone
			}
			if elsewhere == nil || precedes(p, elsewhere) {
				elsewhere = p
			}
			if selected && precedes(p, r.Partition) {
				overlap = min(cmp.Or(overlap, "\xff"), "node "+n.Name+" is selected by "+p.Name+", too, which is older")
			}
		}
		before := recordOf(n)
		// what a NodePartition that is gone has left is of one that selects the node
		if selected && !known[before.Partition] {
			before.Partition = r.Partition.Name
		}
		m := r.ended(n, before)
		// also a node whose first try has just ended
		has := r.Partition.Name == before.Partition || r.Partition.Name == m.record.Partition
		// maxUnavailable is a share of the nodes that change, and a node that is kept does not
		if selected || has && removes {
			r.all++
		}
		switch {
		case selected && !deleting:
			r.Status.Nodes.Selected++
			r.apply(m)
		case has && removes && elsewhere == nil:
			r.Status.Nodes.Selected++
			r.remove(m)
		case has && removes:
			r.hand(m, elsewhere.Name)
		}
	}
	return overlap
}

// hand gives a node to another NodePartition that selects it, which may not try it soon.
func (r *roll) hand(m member, to string) {
	if m.busy || m.blocked {
		r.left++
		return
	}
	if m.record.Partition != "" {
		m.record.Partition = to
		r.Ends = append(r.Ends, End{Node: m.Node, Labels: map[string]*string{}, Record: m.record.String()})
	}
}

// orphans removes the pods of nodes that are gone.
func (r *roll) orphans() {
	nodes := map[string]bool{}
	for _, n := range r.Nodes {
		nodes[n.Name] = true
	}
	for node, p := range r.pods {
		// a node that has left the cluster is not one that has failed
		if p.Annotations[PartitionAnnotation] == r.Partition.Name && !nodes[node] {
			r.drop(p)
		}
	}
}

// drop has a pod deleted that says nothing.
func (r *roll) drop(p *v1.Pod) {
	// the events of a pod ask for a decision about its own NodePartition
	if p.Annotations[PartitionAnnotation] != r.Partition.Name {
		r.later(r.Now.Add(time.Second))
	}
	if p.DeletionTimestamp == nil {
		r.Deletes = append(r.Deletes, p)
	}
}

// later notes a time at which something changes by itself.
func (r *roll) later(at time.Time) {
	if d := max(at.Sub(r.Now), time.Second); r.Again == 0 || d < r.Again {
		r.Again = d
	}
}

// member is a node, as it will be when the end of its try is written.
type member struct {
	*v1.Node
	record Record
	// state is of the last try of what is wanted; empty without one.
	state string
	// busy is true while a try is under way.
	busy bool
	// blocked is true if another pod has the name of the node's pod.
	blocked bool
}

// ended records the end of a node's try.
func (r *roll) ended(n *v1.Node, before Record) member {
	p := r.pods[n.Name]
	m := member{Node: n, record: before}
	if p != nil && p.Annotations[PartitionAnnotation] != r.Partition.Name {
		m.blocked = !r.abandoned(p, m)
		p = nil
	}
	if p != nil {
		m = r.tried(m, p)
	}
	if m.record.Partition != r.Partition.Name {
		//guard: what another NodePartition has left on a node is forgotten
		m.record = m.record.ofOther()
	}
	return m
}

// abandoned reports whether a pod of another NodePartition is of no use: there is none, or it has
// the node no longer, and the end of the pod is recorded.
func (r *roll) abandoned(p *v1.Pod, m member) bool {
	i := slices.IndexFunc(r.All, func(o *v1alpha1.NodePartition) bool {
		return o.Name == p.Annotations[PartitionAnnotation]
	})
	if i < 0 {
		return true
	}
	left := r.All[i].DeletionTimestamp != nil || !selects(r.All[i]).Matches(labels.Set(m.Labels))
	return left && terminal(p) && m.record.Pod == p.UID
}

// tried looks at the pod of a node.
func (r *roll) tried(m member, p *v1.Pod) member {
	o := outcomeOf(p, m.Node, r.Now)
	switch {
	case o.state == running && p.DeletionTimestamp == nil, o.state == running && container(p) != nil:
		m.busy = true
		r.Busy = append(r.Busy, m.Name)
		if !o.again.IsZero() {
			r.later(o.again)
		}
		return m
	case o.state == running: // it never ran, and is being deleted
		m.blocked = true
		return m
	case o.state == gone:
		r.drop(p)
		m.blocked = true
		return m
	case o.state == removed && m.record == (Record{}): // recorded
		r.drop(p)
		m.blocked = true
		return m
	// an end is recorded once
	case m.record.Pod != p.UID:
		return r.record(m, p, o)
	}
	m.blocked = p.DeletionTimestamp != nil
	if o.state != Failed {
		r.drop(p)
		m.blocked = true
	}
	return m
}

// record writes the end of a try, and returns the node with it.
func (r *roll) record(m member, p *v1.Pod, o outcome) member {
	want := p.Annotations[WantAnnotation]
	before := m.record
	if before.Partition != r.Partition.Name {
		before = before.ofOther()
		// A survey changes nothing, and its end takes nothing off.
		before.Changed = before.Changed && Mode(p.Annotations[ModeAnnotation]) != Survey
	}
	after := Record{
		Partition: r.Partition.Name, Want: want, Pod: p.UID, At: metav1.NewTime(r.Now.UTC()), Message: o.message,
		Surveyed: before.Surveyed, Changed: before.Changed, Machine: m.Status.NodeInfo.MachineID,
	}
	if Mode(p.Annotations[ModeAnnotation]) == Apply {
		after.Changed = !o.untouched || before.Changed && p.Annotations[FirstAnnotation] != "true"
	}
	// A container may start while its pod is taken away: its end is recorded, too.
	if !terminal(p) {
		after.Pod = before.Pod
	}
	if p.Status.StartTime != nil {
		after.Seconds = int(o.ended.Sub(p.Status.StartTime.Time).Seconds())
	}
	end := End{Node: m.Node, Labels: map[string]*string{}, State: o.state, Reason: o.reason, Message: o.message}
	switch o.state {
	case Kept:
		// of a change that an earlier try has made nobody has seen a soak
		after.Unchanged, after.Message = o.reason == string(record.Unchanged) && before.Tries == 0, ""
		end.set(StateLabel, Kept)
		end.set(partition.VersionLabel, partition.VersionValue(p.Annotations[VersionAnnotation]))
		end.set(partition.SectionLabel, partition.SectionValue(p.Annotations[HashAnnotation]))
		end.Labels[ReasonLabel] = nil
	case surveyed:
		after.Surveyed, after.Want = want, before.Want
		end.State = ""
		if m.Labels[StateLabel] == Refused { // by an earlier survey
			end.Labels[StateLabel], end.Labels[ReasonLabel] = nil, nil
		}
	case removed:
		after = Record{}
		for _, label := range []string{StateLabel, ReasonLabel, partition.VersionLabel, partition.SectionLabel} {
			end.Labels[label] = nil
		}
	default:
		after.Tries = 1
		if before.Want == want && m.Labels[StateLabel] != Kept {
			after.Tries = before.Tries + 1
		}
		// only a try that ran mends a failure
		if o.state != Failed && m.Labels[StateLabel] == Failed && (before.Want == want || want == WantRemoved) {
			break
		}
		end.set(StateLabel, o.state)
		end.set(ReasonLabel, o.reason)
	}
	// The message stays with the label of a failure.
	if _, changes := end.Labels[StateLabel]; !changes && m.Labels[StateLabel] == Failed {
		after.Message = before.Message
	}
	if after != (Record{}) {
		end.Record = after.String()
	}
	// The log of a pod that has failed stays until the next try.
	if o.state != Failed && p.DeletionTimestamp == nil {
		end.Pod = p
	}
	m.blocked = true // until the pod is gone
	r.Ends = append(r.Ends, end)
	m.Node, m.record = end.written(), after
	return m
}

func (e *End) set(label, value string) { e.Labels[label] = &value }

// written returns the node as it will be.
func (e *End) written() *v1.Node {
	n := *e.Node
	n.Labels = map[string]string{}
	maps.Copy(n.Labels, e.Node.Labels)
	for k, v := range e.Labels {
		if v == nil {
			delete(n.Labels, k)
			continue
		}
		n.Labels[k] = *v
	}
	return &n
}

// apply looks at a node that is to have the partition.
func (r *roll) apply(m member) {
	nodes, rollout := &r.Status.Nodes, r.Partition.Spec.Rollout
	tried := m.record.Want == r.key
	if tried {
		m.state = m.Labels[StateLabel]
	}
	switch {
	case m.busy && r.lost(m):
		nodes.Failed++
		r.failures["lost"] = append(r.failures["lost"], m.Name)
	case m.state == Failed:
		nodes.Failed++
		r.failures[m.Labels[ReasonLabel]] = append(r.failures[m.Labels[ReasonLabel]], m.Name)
	case m.state == Refused:
		nodes.Refused++
		r.refusals[m.Labels[ReasonLabel]] = append(r.refusals[m.Labels[ReasonLabel]], m.Name)
	}
	if m.busy {
		return
	}
	over := m.record.At.Add(rollout.Soak.Duration)
	current := tried && r.Want.has(m.Node)
	// the place of a node on which nothing was done is free at once
	soaks := current && !m.record.Unchanged && over.After(r.Now)
	c, isReady := ready(m.Node)
	away := !isReady && !leaving(m.Node)
	if away && !soaks {
		r.unready = append(r.unready, m.Name)
	}
	if current {
		nodes.Current++
		if m.record.Seconds > 0 {
			r.seconds, r.taken = r.seconds+m.record.Seconds, r.taken+1
		}
		watched := min(rollout.Soak.Duration, awayWithin) // who wants no soak waits for nothing
		proven := over.Add(watched)
		// the clock of the node may be wrong
		if back := c.LastTransitionTime.Time; back.After(over) && !back.After(r.Now) {
			proven = back.Add(watched)
		}
		switch {
		case soaks:
			r.soaking = append(r.soaking, m.Name)
			r.later(over)
		case away:
			r.away = append(r.away, m.Name)
		case !m.record.Unchanged && proven.After(r.Now):
			r.unproven = append(r.unproven, m.Name)
			r.later(proven)
		case isReady:
			r.done++
		}
		return
	}
	why := skip(m.Node, Apply, r.Partition.Spec.Tolerations)
	due := due(m)
	// An operator who removes the label asks for another try.
	waiting := m.state != "" && due.After(r.Now)
	if why == "" && m.state == Skipped && waiting {
		why = cmp.Or(m.Labels[ReasonLabel], "interrupted")
		r.unstarted++
	}
	if waiting {
		r.later(due)
	}
	mode := Apply
	if rollout.SurveyOnly {
		mode = Survey
	}
	p := r.pods[m.Name]
	foreign := p != nil && p.Annotations[PartitionAnnotation] != r.Partition.Name
	switch {
	case why != "":
		if m.state != Failed && m.state != Refused {
			nodes.Skipped++
		}
		r.skips[why] = append(r.skips[why], m.Name)
	case waiting, mode == Survey && m.record.Surveyed == r.key:
	case foreign && m.blocked:
		r.later(r.Now.Add(time.Second))
	case foreign: // of a NodePartition that has the node no longer
		r.drop(p)
	default:
		// The pod of the last try goes first. The node keeps its place meanwhile: no other one is begun
		// before it.
		if m.blocked {
			r.later(r.Now.Add(time.Second))
		} else if p != nil {
			r.drop(p)
		}
		if m.state == Failed {
			r.retries = append(r.retries, r.start(m, mode))
		} else {
			r.fresh = append(r.fresh, r.start(m, mode))
		}
	}
}

// start returns the start of a node. One that nothing has changed, or that another NodePartition
// had, is recorded first.
func (r *roll) start(m member, mode Mode) Start {
	s := Start{Node: m.Name, Mode: mode, First: mode == Apply && !m.record.Changed}
	if claim := m.record; mode == Apply && (!claim.Changed || claim.Partition != r.Partition.Name) {
		claim.Partition, claim.Changed, claim.Machine = r.Partition.Name, true, m.Status.NodeInfo.MachineID
		s.Claim = &End{Node: m.Node, Labels: map[string]*string{}, Record: claim.String()}
	}
	return s
}

// lost reports whether a node went away while it was changed.
func (r *roll) lost(m member) bool {
	c, ok := ready(m.Node)
	if ok || leaving(m.Node) {
		return false
	}
	since := c.LastTransitionTime.Add(backWithin)
	if r.Now.Before(since) {
		r.later(since)
		return false
	}
	return true
}

// due returns when a node may be tried again.
func due(m member) time.Time {
	first, most := failedBackoff, maxFailedBackoff
	if m.state == Skipped {
		first, most = skippedBackoff, maxSkippedBackoff
	}
	wait := first
	for i := 1; i < m.record.Tries && wait < most; i++ {
		wait *= 2
	}
	return m.record.At.Add(min(wait, most))
}

// remove looks at a node that the partition is taken off.
func (r *roll) remove(m member) {
	if m.busy {
		r.left++
		return
	}
	if m.record.Partition == "" { // it has ended
		return
	}
	// A node that was never changed is not changed by a removal. It is forgotten when its pod is gone:
	// a node is written once in a decision.
	if !m.record.Changed && !m.blocked {
		end := End{Node: m.Node, Labels: map[string]*string{StateLabel: nil, ReasonLabel: nil}}
		r.Ends = append(r.Ends, end)
		return
	}
	r.left++
	tried := m.record.Want == WantRemoved
	if tried {
		m.state = m.Labels[StateLabel]
	}
	if m.state == Failed || m.state == Refused {
		r.Status.Nodes.Failed++
		r.failures[m.Labels[ReasonLabel]] = append(r.failures[m.Labels[ReasonLabel]], m.Name)
	}
	why := skip(m.Node, Remove, nil)
	due := due(m)
	switch {
	case why != "":
		r.waits[why] = append(r.waits[why], m.Name)
	// An operator who removes the label asks for another try.
	case m.state != "" && due.After(r.Now):
		r.later(due)
		r.waits["to be tried again"] = append(r.waits["to be tried again"], m.Name)
	case m.blocked:
		r.later(r.Now.Add(time.Second))
	case r.pods[m.Name] != nil:
		r.drop(r.pods[m.Name])
	case m.state == Failed || m.state == Refused: // after a stop, too
		r.retries = append(r.retries, r.start(m, Remove))
	default:
		r.fresh = append(r.fresh, r.start(m, Remove))
	}
}
