package fleet

import "time"

// fall is a node that has kept the partition in this roll, and that is not Ready after its pause.
// It takes a place for as long as that lasts. A machine that restarts is back before the time of a
// trial is over.
type fall struct {
	m     *member   // nil when it is over
	until time.Time // when the node counts as failed; zero before the first step after it
}

// died reports whether a node was not Ready when it left the cluster under its Job. Node repair
// deletes what a trial has killed. A removal is done with what has left.
func (r *Roll) died(m *member) bool {
	//guard: a node that left the cluster while it was Ready has not failed
	//guard: a removal does not fail for a node that was off and left the cluster
	return r.plan.Action != Uninstall && !m.node.Ready
}

const diedInTrial = "it was not Ready when it left the cluster, before its Job had ended"

// dead returns the outcome of a node that is not Ready.
func dead(m *member, since string) Outcome {
	return Outcome{
		Node: m.node.Name, State: StateFailed, Reason: reasonNotReady, Sentence: since + ": " + m.node.NotReady,
	}
}

// rested ends the pauses and the falls that are over. A node that is not Ready then has not
// survived what it has kept.
func (r *Roll) rested(now time.Time) {
	for rest, ok := r.pools.over(now); ok; rest, ok = r.pools.over(now) {
		m := rest.m
		switch {
		//guard: the pause of a node that was replaced says nothing about the present one
		case !m.kept || m.node.UID != rest.job.NodeUID:
		//guard: a node that is not Ready when its pause ends has failed
		//guard: a node that was off before the dispatcher began has not failed at once
		case m.node.Ready || m.early:
			// Whoever began after the Job had ended does not know since when the node is away.
			m.watched = true
			r.look(m)
		default:
			r.lose(m)
		}
	}
	for i := len(r.falls) - 1; i >= 0 && r.falls[i].until.IsZero(); i-- {
		r.falls[i].until = now.Add(r.plan.Settings.Trial)
	}
	for len(r.falls) > 0 && (r.falls[0].m == nil || !r.falls[0].until.After(now)) {
		m := r.falls[0].m
		r.falls = r.falls[1:]
		//guard: a node that stays NotReady after its pause has failed
		if m != nil {
			r.lose(m)
		}
	}
}

// nextFree returns when the next pause or fall ends, zero if there is none.
func (r *Roll) nextFree() time.Time {
	var next time.Time
	if len(r.pools.rests) > 0 {
		next = r.pools.rests[0].until
	}
	//guard: the roll waits for a pause that ends before a fall
	if len(r.falls) > 0 && (next.IsZero() || r.falls[0].until.Before(next)) {
		next = r.falls[0].until
	}
	return next
}

// look takes a change of a node that has kept the partition. One that leaves the cluster after its
// pause has not failed: autoscalers take nodes away at any time, and those are not Ready before.
func (r *Roll) look(m *member) {
	down := m.present && !m.node.Ready
	switch {
	//guard: what is told again of a node that is not Ready does not begin its time again
	case m.watched && down && m.fall == nil:
		m.fall = &fall{m: m}
		//guard: a node that goes NotReady after its pause takes a place
		r.falls = append(r.falls, m.fall)
		r.take(m)
	//guard: what is told again of a node that is not Ready does not end its fall
	case !down:
		r.rise(m)
	}
}

// rise ends the fall of a node, if there is one.
func (r *Roll) rise(m *member) {
	if m.fall != nil {
		//guard: a node that is Ready again, or has left the cluster, gives up its place
		m.fall.m, m.fall = nil, nil
		r.release(m)
	}
}

// unwatch ends what is known of a node that has kept the partition.
func (r *Roll) unwatch(m *member) {
	r.rise(m)
	m.kept, m.watched = false, false
}

// lose counts a node as failed that was counted as kept.
func (r *Roll) lose(m *member) {
	r.unwatch(m)
	r.result.Done--
	r.finish(m, dead(m, "it has kept the partition, and was not Ready after that"))
}
