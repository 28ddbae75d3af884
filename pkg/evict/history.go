package evict

import (
	"slices"
	"time"
)

// load continues from the state of an earlier run. cooldown is the configured one.
func (x *executor) load(cooldown time.Duration) {
	history, err := x.Store.Read()
	if err != nil {
		x.Events.Failed(Eviction{}, StepState, err) // and begin with an empty state
	}
	x.state, x.watch.earlier = history.Shortage.restore(time.Now())
	x.state.Open, x.state.Cooldown = executions(history.Open), history.Cooldown
	x.state.Unreclaimable, x.state.LeftAt = history.Unreclaimable, history.LeftAt
	x.last = executions(history.Last)
	if x.state.Cooldown == nil {
		x.state.Cooldown = map[string]time.Time{}
	}
	if x.state.Unreclaimable == nil {
		x.state.Unreclaimable = map[string]uint64{}
	}
	for owner, until := range x.state.Cooldown {
		// The clock may have been set back since it was written.
		x.state.Cooldown[owner] = time.Now().Add(min(time.Until(until), cooldown))
	}
	x.remember()
}

// keep adds an eviction to those that status shows.
func (x *executor) keep(e execution) {
	x.last = append(x.last, e)
	x.last = x.last[max(0, len(x.last)-historySize):]
}

// save writes the state file, and reports whether that succeeded. An eviction is not delayed if it
// fails: at worst it is carried out twice.
func (x *executor) save() bool {
	x.remember()
	x.saved, x.savedAt = x.begun(), time.Now()
	history := History{
		Open:          records(x.state.Open),
		Cooldown:      x.state.Cooldown,
		Unreclaimable: x.state.Unreclaimable,
		LeftAt:        x.state.LeftAt,
		Last:          records(x.last),
		Shortage:      x.shortage(x.savedAt),
	}
	if err := x.Store.write(history); err != nil {
		x.Events.Failed(Eviction{}, StepState, err)
		return false
	}
	return true
}

// remember marks the pods that are evicted for good.
func (x *executor) remember() {
	evicting := map[string]bool{}
	for _, e := range slices.Concat(x.last, x.state.Open) {
		if e.Method == Evict && !e.DryRun {
			evicting[e.UID] = true
		}
	}
	x.evicting = evicting
	x.Mark(evicting)
}

// isEvicted reports whether a pod has an open eviction, or was evicted for good recently.
func (x *executor) isEvicted(uid string) bool {
	return x.evicting[uid] || slices.ContainsFunc(x.state.Open, func(e execution) bool { return e.UID == uid })
}

// signalled returns the cgroups of a pod's containers that were signalled to end less than
// retryInterval ago. It returns cgroups and not containers, because a live move gives a container
// another cgroup.
func (x *executor) signalled(uid string, now time.Time) map[string]bool {
	signalled := map[string]bool{}
	for _, e := range slices.Concat(x.last, x.state.Open) {
		if e.UID != uid || e.DryRun || now.Sub(e.signalledAt) > retryInterval {
			continue
		}
		for _, c := range e.Containers {
			signalled[c.Cgroup] = true
		}
	}
	return signalled
}

// executions applies newExecution to each.
func executions(evictions []Eviction) []execution {
	list := make([]execution, 0, len(evictions))
	for _, e := range evictions {
		list = append(list, newExecution(e))
	}
	return list
}

// records applies record to each.
func records(list []execution) []Eviction {
	evictions := make([]Eviction, 0, len(list))
	for _, e := range list {
		evictions = append(evictions, e.record())
	}
	return evictions
}
