package evict

import (
	"slices"
	"time"
)

// Threshold is one of the two thresholds.
type Threshold string

// The thresholds, named as the kubelet's fields.
const (
	Hard Threshold = "hard"
	Soft Threshold = "soft"
)

// Way is how a pod goes.
type Way string

const (
	// Evict is for good: the pod ends Failed, as after the kubelet's own eviction.
	Evict Way = "evict"
	// Restart only stops the containers; the kubelet starts them again as the pod's restartPolicy
	// says.
	Restart Way = "restart"
)

// Hold is why no pod goes although a threshold is crossed.
type Hold string

// The reasons.
const (
	// HoldReclaiming: the memory of a pod that was told to end is not back yet.
	HoldReclaiming Hold = "reclaiming"
	// HoldStays: without the memory that stays when processes end there would be enough. Another
	// pod would go for nothing.
	HoldStays Hold = "memory-stays"
	// HoldDoubt: the last pod that went did not bring back what it used.
	HoldDoubt Hold = "doubt"
	// HoldUnknown: a pod that nobody knows may be the one that grows.
	HoldUnknown Hold = "unknown-pod"
)

// Decision is what is to be done now.
type Decision struct {
	// State replaces that of the snapshot.
	State State
	// Crossed is the threshold below which available memory is, empty for none.
	Crossed Threshold
	// Limit that is guarded in bytes (cgroupfs.Unlimited for none), memory available below it, and
	// At the threshold that this is compared with.
	Limit, Available, At uint64
	// Victim is the pod that goes now, nil for none.
	Victim *Pod
	// Way and Grace are how it goes. No grace is at once.
	Way   Way
	Grace time.Duration
	// Hurry has the open evictions whose containers have a grace period left, and have it no more.
	Hurry []execution
	// Held is why nobody goes, empty where somebody does or need not.
	Held Hold
	// Nobody says that a pod should go and none may: the kernel will kill.
	Nobody bool
	// LowerLimit says that the partition has come below a limit that was lowered, and systemd can
	// apply it.
	LowerLimit bool
	// Order has all pods as they would go, those that are spared too.
	Order []Candidate
}

// Candidate is a pod in the order.
type Candidate struct {
	Pod
	// Skip is why it does not go, empty where it may.
	Skip Skip
}

// Pressure reports whether Decide needs the pods.
func Pressure(s Snapshot) bool {
	crossed, state := s.crossed()
	s.State = state
	return crossed != "" && (!waiting(state.Open) || s.emergency(crossed))
}

// crossed is the threshold that asks for an eviction now, and the state that follows.
func (s Snapshot) crossed() (Threshold, State) {
	state, c := s.State, s.Effective()
	if c.Off || s.unlimited() {
		return "", State{Open: state.Open, Cooldown: state.Cooldown, Stays: state.Stays}
	}
	left := s.available()
	below := func(threshold uint64, name Threshold) bool {
		if threshold == 0 {
			return false
		}
		if state.Reclaiming == name {
			return left < threshold+c.MinimumReclaim
		}
		return left < threshold
	}
	// Where the kernel could not keep the limit, less was left than the sum says: slabs of open
	// files count as what it could free.
	hard, soft := below(c.Hard, Hard) || c.Hard > 0 && s.OutOfMemory, below(c.Soft, Soft)
	switch {
	case !soft:
		state.SoftSince = time.Time{}
	case state.SoftSince.IsZero():
		state.SoftSince = s.Now
	}
	state.Reclaiming = ""
	switch {
	case hard:
		state.Reclaiming = Hard
	case soft && (s.State.Reclaiming == Soft || s.Now.Sub(state.SoftSince) >= c.SoftGrace):
		state.Reclaiming = Soft
	default:
		state.Floor, state.Floored, state.UnknownSince = 0, false, time.Time{}
	}
	if !state.Floored && state.Reclaiming == Hard && waiting(state.Open) {
		// There was enough since the last one went, and what it has left does not come: somebody
		// else grows.
		state.Floor, state.Floored = c.Hard/2, true
	}
	return state.Reclaiming, state
}

// Decide says what is to be done.
func Decide(s Snapshot) Decision {
	crossed, state := s.crossed()
	c := s.Effective()
	d := Decision{State: state, Crossed: crossed, Limit: s.limit(), Available: s.available(), At: c.threshold(crossed)}
	shortage := d.At + c.MinimumReclaim - min(d.Available, d.At+c.MinimumReclaim)
	if s.OutOfMemory {
		shortage = d.At + c.MinimumReclaim // the sum is wrong, and nobody knows by how much
	}
	stays := uint64(0) // of all pods together
	for _, pod := range Rank(s.Pods) {
		skip := c.Spare.reason(pod)
		remains := s.stays(pod)
		stays += remains
		if skip == "" && (remains > 0 || pod.Empty) && pod.Usage.Used-remains < (shortage+1)/2 {
			skip = SkipStays
		}
		d.Order = append(d.Order, Candidate{pod, skip})
	}
	if crossed == "" {
		// Only what the configuration wants counts here: with less than the threshold left, the
		// next page would be the kernel's turn.
		d.LowerLimit = !c.Off && !c.DryRun && c.Lowering && c.Limit < s.Memory.Max && s.Memory.Used() < c.Limit && !waiting(state.Open)
		return d
	}
	if crossed == Hard && waiting(state.Open) {
		for _, open := range state.Open {
			if open.Grace > 0 && open.phase != reclaimed {
				d.Hurry = append(d.Hurry, open)
				state.Floor, state.Floored = 0, true // they are told anew
			}
		}
	}
	s.State = state
	d.Held = s.held(&d, stays, shortage)
	if d.Held != "" && (len(d.Hurry) > 0 || !s.emergency(crossed)) {
		// The most that has been left since: whoever takes half of that grows now.
		d.State.Floor, d.State.Floored = max(state.Floor, d.Available/2), true
		d.Nobody = d.Held == HoldStays
		return d
	}
	d.Held = ""
	for _, candidate := range d.Order {
		if candidate.Skip != "" {
			continue
		}
		d.Victim = &candidate.Pod
		break
	}
	if d.Victim == nil {
		d.Nobody = true
		return d
	}
	d.State.Floor, d.State.Floored = d.Available/2, true
	d.Way = s.way(*d.Victim)
	if crossed == Soft {
		// As the kubelet for soft thresholds (evictionManager.synchronize): the pod's own grace
		// period, and at most the configured one.
		d.Grace = d.Victim.GracePeriod
		if c.MaxPodGrace >= 0 {
			d.Grace = min(d.Grace, c.MaxPodGrace)
		}
		d.Grace = max(d.Grace, leastGrace)
	}
	return d
}

// leastGrace is what the kubelet gives each container that it stops (minimumGracePeriodInSeconds,
// pkg/kubelet/kuberuntime/kuberuntime_container.go): who sets a soft threshold wants SIGTERM first.
const leastGrace = 2 * time.Second

// way is how a pod goes. Restart is for what comes back: a pod that is being deleted, one that is
// never started again, and one without processes end for good, however lately another one of the
// owner has.
func (s Snapshot) way(p Pod) Way {
	switch {
	case !s.API || p.Static || p.Unknown:
		return Restart
	case p.Terminating, p.Empty, p.endsForGood():
		return Evict
	case s.Now.Before(s.State.Cooldown[p.Owner]):
		return Restart
	}
	return Evict
}

// stays is the memory of a pod, in bytes, that stopping it again would not bring back.
func (s Snapshot) stays(p Pod) uint64 {
	if p.Empty && (p.Evicted || s.way(p) != Evict) {
		return p.Usage.Used
	}
	return min(s.State.Stays[p.UID], p.Usage.Used)
}

// unknownPatience is how long a pod that nobody knows keeps others from going: a pass takes longer
// where the runtime is slow, which is what low memory makes of it.
const unknownPatience = 5 * time.Second

// held is why nobody else is to go now. It keeps in d what has to be kept.
func (s Snapshot) held(d *Decision, stays, shortage uint64) Hold {
	switch {
	case waiting(s.State.Open):
		// One at a time: what it frees is not back yet.
		return HoldReclaiming
	case stays > 0 && stays >= shortage:
		return HoldStays
	case s.Now.Before(s.State.Doubt):
		return HoldDoubt
	case !slices.ContainsFunc(s.Pods, func(p Pod) bool { return p.Unknown && !p.Empty }): // one without processes does not grow
		d.State.UnknownSince = time.Time{}
		return ""
	case s.State.UnknownSince.IsZero():
		d.State.UnknownSince = s.Now
		return HoldUnknown
	case s.Now.Sub(s.State.UnknownSince) < unknownPatience:
		return HoldUnknown
	}
	return ""
}

// emergency reports whether memory goes on vanishing while nobody goes: somebody else grows, and
// the limit is near, or the kernel kills already: where all has gone between two looks, there is no
// half of it to go. Each such decision halves what has to be left for the next.
func (s Snapshot) emergency(crossed Threshold) bool {
	return crossed == Hard && (s.available() < s.State.Floor || s.OutOfMemory) && !freeing(s.State.Open, s.Now)
}

// threshold is the amount of a threshold.
func (c Config) threshold(name Threshold) uint64 {
	if name == Soft {
		return c.Soft
	}
	return c.Hard
}

// forgetCooldown drops owners whose time is over.
func forgetCooldown(cooldown map[string]time.Time, now time.Time) {
	for owner, until := range cooldown {
		if !now.Before(until) {
			delete(cooldown, owner)
		}
	}
}
