package evict

import "time"

// shortage is what the state file has of a shortage of memory. Without it, a restart would begin
// the soft threshold's period again, stop short of the minimum reclaim, and forget that memory is
// awaited.
type shortage struct {
	// At is the time at which it was written.
	At time.Time `json:"at"`
	State
	evidence
}

const (
	// shortageAge is the age from which a file says nothing of the present shortage.
	// The service starts again within seconds.
	shortageAge = time.Minute
	// shortageRenewal is the age at which a shortage that lasts is written again.
	shortageRenewal = time.Second
)

// begun is the part of a shortage that is written at once when it changes.
type begun struct {
	reclaiming          Threshold
	softSince, killedAt time.Time
	based               bool
}

func (x *executor) begun() begun {
	s := &x.state
	return begun{s.Reclaiming, s.SoftSince, x.watch.evidence.KilledAt, s.Base > 0}
}

// keepShortage writes the state file when a part of a shortage has begun or ended, and once in
// shortageRenewal while one lasts.
func (x *executor) keepShortage(now time.Time) {
	present := x.begun()
	//guard: an unchanged shortage does not become old
	lasts := present != (begun{}) && now.Sub(x.savedAt) >= shortageRenewal
	if present != x.saved || lasts {
		x.save()
	}
}

// shortage returns the present shortage, empty for none. What each pod used is known while an
// eviction is open: memory may fall again before it is closed.
func (x *executor) shortage(now time.Time) shortage {
	if x.begun() == (begun{}) && len(x.state.Open) == 0 {
		return shortage{}
	}
	s := shortage{At: now, State: x.state}
	if e := x.watch.evidence; !e.KilledAt.IsZero() {
		s.evidence = e
	}
	return s
}

// restore returns the state and the evidence of an earlier run, which are empty if it was too long
// ago. What has happened is not later than now, although the clock may have been set.
func (s shortage) restore(now time.Time) (State, evidence) {
	//guard: a shortage of a later time is ignored
	//guard: an old shortage is ignored
	if age := now.Sub(s.At); age < 0 || age >= shortageAge {
		return State{}, evidence{}
	}
	at := func(t time.Time) time.Time {
		if t.IsZero() {
			return t
		}
		//guard: no time of a shortage is later than a run could have written
		return now.Add(min(t.Sub(now), 0)) // by the monotonic clock from now on
	}
	state := s.State
	state.SoftSince = at(s.SoftSince)
	//guard: one kill in vain after another is not awaited after a restart
	e := evidence{KilledAt: at(s.KilledAt), LastAt: at(s.LastAt), QuietAt: at(s.QuietAt), Used: s.Used}
	return state, e
}
