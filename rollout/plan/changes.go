package plan

import (
	"cmp"
	"time"
)

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
		watched := min(rollout.Soak.Duration, awayWithin) // a NodePartition without a soak does not wait
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
