package evict

import "time"

// restShare is the time between two decisions that do nothing, in times of what one takes. That
// state may last for days, and each decision reads all pods. So they take a hundredth of a CPU.
const restShare = 100

// maxRest bounds it.
const maxRest = 5 * time.Second

// rest is a decision to do nothing while a threshold is crossed, or to report only. It holds until
// its time is over, or less memory is left: than then, or than half of the most since.
type rest struct {
	Decision
	config Settings
	// used is the usage in bytes: above the limit that is guarded nothing is available, and it still
	// tells who grows.
	used  uint64
	until time.Time
}

// newRest returns the decision as one that holds, if it does nothing. took is the time that it
// took, from the list of the pods on.
func newRest(s Situation, d Decision, took time.Duration) rest {
	if d.Crossed == "" || len(d.Hurry) > 0 || d.Victim != nil && !s.Config.DryRun {
		return rest{}
	}
	return rest{d, s.Config, s.Memory.Used(), s.Now.Add(restFor(took))}
}

// restFor returns the time until something that took so long is done again.
func restFor(took time.Duration) time.Duration {
	//guard: decisions to do nothing cost a hundredth of a CPU
	return min(max(restShare*took, heldPollInterval), maxRest)
}

// again returns the decision for a later reading of the partition alone, and false if the pods have
// to be read.
func (r *rest) again(s Situation) (Decision, bool) {
	crossed, state := s.crossed()
	if r.Held != "" { // as Decide does
		state.Base = min(state.Base, s.Memory.Used())
	}
	fallen := s.left()+min(flutter, r.Available/8) < r.Available ||
		r.Available == 0 && s.Memory.Used() > r.used+flutter ||
		//guard: half of what became available while nothing is done shows a leak
		state.Base < r.State.Base && s.Memory.Used() > s.halfway(state.Base)
	//guard: a decision to do nothing ends when less memory is left
	//guard: a decision to do nothing ends with another configuration
	if crossed == "" || crossed != r.Crossed || fallen || !s.Now.Before(r.until) || s.Config != r.config || s.waiting() {
		return Decision{}, false
	}
	d := r.Decision
	d.State, d.Limit, d.Available = state, s.limit(), s.left()
	return d, true
}
