package evict

import "time"

// Snapshot is all that Decide decides from: plain data.
type Snapshot struct {
	Now    time.Time
	Config Config
	Memory Memory
	// Pods in the partition with their figures. They are asked for only where Pressure says so.
	Pods []Pod
	// State is what earlier decisions left.
	State State
	// API tells whether pods can be evicted through the API server.
	API bool
}

// State is what is kept from one decision to the next.
type State struct {
	// Reclaiming is the threshold that was crossed and is not MinimumReclaim away again, empty for none.
	Reclaiming Threshold
	// SoftSince is when the soft threshold was crossed, zero where it is not.
	SoftSince time.Time
	// Open are evictions whose memory is not back.
	Open []Eviction
	// Cooldown has the owners whose pod was evicted, and until when no other of theirs is.
	Cooldown map[string]time.Time
}

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
	// Restart only stops the containers; the kubelet starts them again as the pod's restartPolicy says.
	Restart Way = "restart"
)

// Decision is what is to be done now.
type Decision struct {
	// State replaces that of the snapshot.
	State State
	// Crossed is the threshold below which available memory is, empty for none.
	Crossed Threshold
	// Available memory in bytes, and At the threshold that it is compared with.
	Available, At uint64
	// Victim is the pod that goes now, nil for none.
	Victim *Pod
	// Way and Grace are how it goes. No grace is at once.
	Way   Way
	Grace time.Duration
	// Hurry has the open evictions whose containers have a grace period left, and have it no more.
	Hurry []Eviction
	// Nobody says that a pod should go and all are spared: the kernel will kill.
	Nobody bool
	// LowerLimit says that the partition has come below a limit that was lowered, and systemd can apply it.
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

// limit is what memory is guarded for: what the kernel enforces, or less where the configuration asks for it.
func (s Snapshot) limit() uint64 { return min(s.Config.Limit, s.Memory.Max) }

// rounding is more than the kernel rounds a limit down by: to whole pages, of 64 KiB on some machines.
const rounding = 1 << 17

// effective is the configuration for the limit that is in force. While that is below the configured one, because a limit that was raised
// is about to be applied, or an operator has lowered it, the thresholds are the same parts of it: those of the larger limit would have
// pods go for nothing.
func (s Snapshot) effective() Config {
	c := s.Config
	if c.Limit-s.limit() < rounding {
		return c
	}
	part := float64(s.Memory.Max) / float64(c.Limit)
	for _, amount := range []*uint64{&c.Hard, &c.Soft, &c.MinimumReclaim} {
		*amount = uint64(float64(*amount) * part)
	}
	return c
}

// Pressure reports whether Decide needs the pods.
func Pressure(s Snapshot) bool {
	crossed, _ := s.crossed()
	return crossed != "" && !waiting(s.State.Open)
}

// crossed is the threshold that asks for an eviction now, and the state that follows.
func (s Snapshot) crossed() (Threshold, State) {
	state, c := s.State, s.effective()
	left := available(s.limit(), s.Memory.Used())
	if c.Off {
		return "", State{Open: state.Open, Cooldown: state.Cooldown}
	}
	below := func(threshold uint64, name Threshold) bool {
		if threshold == 0 {
			return false
		}
		if state.Reclaiming == name {
			return left < threshold+c.MinimumReclaim
		}
		return left < threshold
	}
	hard, soft := below(c.Hard, Hard), below(c.Soft, Soft)
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
	}
	return state.Reclaiming, state
}

// Decide says what is to be done.
func Decide(s Snapshot) Decision {
	crossed, state := s.crossed()
	c := s.effective()
	d := Decision{State: state, Crossed: crossed, Available: available(s.limit(), s.Memory.Used()), At: c.threshold(crossed)}
	for _, pod := range Rank(s.Pods) {
		d.Order = append(d.Order, Candidate{pod, c.Spare.reason(pod)})
	}
	if crossed == "" {
		// Only what the configuration wants counts here: with less than the threshold left, the next page would be the kernel's turn.
		d.LowerLimit = !c.Off && !c.DryRun && c.Limit < s.Memory.Max && s.Memory.Used() < c.Limit && !waiting(state.Open)
		return d
	}
	if waiting(state.Open) {
		// One at a time: what it frees is not back yet.
		if crossed == Hard {
			for _, open := range state.Open {
				if open.Grace > 0 && !open.Gone {
					d.Hurry = append(d.Hurry, open)
				}
			}
		}
		return d
	}
	for _, candidate := range d.Order {
		if candidate.Skip != "" {
			continue
		}
		d.Victim = &candidate.Pod
		break
	}
	if d.Victim == nil {
		// Where no pod is known at all, as before the first pass, nobody is spared.
		d.Nobody = len(d.Order) > 0
		return d
	}
	d.Way = Restart
	if s.API && !d.Victim.Static && !s.Now.Before(state.Cooldown[d.Victim.Owner]) {
		d.Way = Evict
	}
	if crossed == Soft {
		// As the kubelet for soft thresholds (evictionManager.synchronize): the pod's own grace period, and at most the configured one.
		d.Grace = d.Victim.GracePeriod
		if c.MaxPodGrace >= 0 {
			d.Grace = min(d.Grace, c.MaxPodGrace)
		}
	}
	return d
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
