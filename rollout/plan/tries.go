package plan

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/rollout/api/v1alpha1"
)

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
		// an earlier try may have made the change, and its soak was not watched
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
