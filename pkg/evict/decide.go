package evict

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// The decision:
//
// A pod is evicted as soon as less than the hard threshold is left, or less than the soft one for
// its period, and until the minimum reclaim is left. It is the first in the kubelet's order that is
// not protected. A pod within its request does not go for what a protected pod, or memory that
// ending processes does not free, has taken. One pod goes at a time. The next waits for the memory
// of an eviction or of a kill by the kernel (HoldReclaiming), for 5 s while a pod is unknown
// (HoldUnknown), and as long as there would be enough without the memory that stays
// (HoldUnreclaimable). If others use up half of what was left at the last decision meanwhile
// (State.Base), and nothing frees memory, another pod grows: it is not waited for.

// Threshold names one of the two thresholds.
type Threshold string

// The thresholds have the names of the kubelet's fields.
const (
	Hard Threshold = "hard"
	Soft Threshold = "soft"
)

// Method is the method by which a pod is evicted.
type Method string

const (
	// Evict evicts the pod for good: it ends Failed, as after the kubelet's own eviction.
	Evict Method = "evict"
	// Restart only stops the containers. The kubelet restarts them according to the pod's
	// restartPolicy.
	Restart Method = "restart"
)

// Hold is the reason for which no pod is evicted although a threshold is crossed.
type Hold string

// The reasons.
const (
	// HoldReclaiming: the memory of the last evicted pod, or of a process that the kernel has
	// killed at the partition's limit, is not back yet.
	HoldReclaiming Hold = "reclaiming"
	// HoldUnreclaimable: enough memory would be available without the memory that stays when processes
	// end. Evicting another pod would not help.
	HoldUnreclaimable Hold = "memory-stays"
	// HoldUnknown: an unknown pod may be the one that grows, or the requests and priorities of all
	// are about to be known.
	HoldUnknown Hold = "unknown-pod"
)

// Decision lists the actions to take now.
type Decision struct {
	// State replaces the state of the snapshot.
	State State
	// Crossed is the threshold that available memory has fallen below, empty for none.
	Crossed Threshold
	// Limit is the guarded limit in bytes (cgroups.Unlimited for none). Available is the
	// memory left below it. At is the threshold that Available is compared with.
	Limit, Available, At uint64
	// Victim is the pod to evict now, nil for none.
	Victim *Pod
	// Method and Grace are the method and the grace period. A Grace of 0 kills at once.
	Method Method
	Grace  time.Duration
	// Hurry lists the open evictions whose grace period ends now.
	Hurry []execution
	// Ownerless is the field of the Situation.
	Ownerless uint64
	// Held is the reason for which no pod is evicted, empty if one is evicted or none needs to be.
	Held Hold
	// NoCandidate means that a pod should be evicted and there is no candidate: the kernel will
	// kill.
	NoCandidate bool
	// LowerLimit means that usage has fallen below a lowered limit, so that systemd can apply it.
	LowerLimit bool
	// Order lists all pods in eviction order, including protected pods.
	Order []Candidate
}

// Candidate is a pod in the eviction order.
type Candidate struct {
	Pod
	// Skip is the reason for which it is not evicted, empty for a candidate.
	Skip Skip
}

// underPressure reports whether Decide needs the pods.
func underPressure(s Situation) bool {
	crossed, state := s.crossed()
	s.State = state
	return crossed != "" && (!s.waiting() || s.emergency(crossed, HoldReclaiming))
}

// crossed returns the threshold that requires an eviction now, and the next state.
func (s Situation) crossed() (Threshold, State) {
	state, c := s.State, s.Effective()
	if c.Off || s.unlimited() {
		return "", State{
			Open: state.Open, Cooldown: state.Cooldown, Unreclaimable: state.Unreclaimable, LeftAt: state.LeftAt,
		}
	}
	left := s.left()
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
	default:
		state.Base, state.UnknownSince = 0, time.Time{}
	}
	if state.Base == 0 && state.Reclaiming == Hard && waiting(state.Open) {
		// Enough was available after the last eviction, and the memory still missing is not
		// coming back: another pod grows.
		state.Base = s.Memory.Max - min(c.Hard, s.Memory.Max)
	}
	return state.Reclaiming, state
}

// Decide returns the actions to take.
func Decide(s Situation) Decision {
	crossed, state := s.crossed()
	c := s.Effective()
	d := Decision{
		State: state, Crossed: crossed, Limit: s.limit(), Available: s.left(), At: c.threshold(crossed),
		Ownerless: s.Ownerless,
	}
	shortage := d.At + c.MinimumReclaim - min(d.Available, d.At+c.MinimumReclaim)
	worthwhile := (shortage + 1) / 2
	//guard: what is used beyond the guarded limit is missing, too
	shortage += s.Memory.Used() - min(s.limit(), s.Memory.Used())
	//guard: files that outlive their pod cost no other pod
	left := s.leftBehind()
	// Sums over all pods, evicted ones too: the memory that stays, and what pods that are passed over
	// for it use beyond their requests. At the first decision of a shortage a pod that uses more than
	// it requests may be the one that grows: it does not wait for memory of no pod, unless an eviction
	// has just left some and the shortage is what is left of that one.
	stays, excess := uint64(0), left
	//guard: files that outlive their pod do not let other pods wait
	//guard: an eviction that left files is not followed by another one for them
	if state.Base > 0 || s.leftLately() {
		stays = left
	}
	for _, pod := range rank(s.Pods) {
		skip := c.Protected.reason(pod)
		remains := s.stays(pod)
		if counted := state.Base > 0 && pod.Empty && pod.withinRequest(); !counted {
			stays += remains
		}
		if skip == "" && (remains > 0 || pod.Empty) && pod.Usage.Used-remains < worthwhile {
			skip = SkipUnreclaimable
			excess += uint64(max(0, pod.excess()))
		}
		d.Order = append(d.Order, Candidate{pod, skip})
	}
	//guard: where nothing is missing, no pod is passed over for memory that stays
	taken, unreclaimableMissing := c.Protected.taken(s.Pods), shortage > 0 && excess >= shortage
	for i := range d.Order {
		pod := &d.Order[i]
		//guard: a pod that grows within its request is not evicted for memory of no pod
		spared := taken >= max(shortage, pod.Usage.Used) || shortage > 0 && left >= shortage ||
			//guard: a pod at rest within its request is not evicted for memory that stays
			//guard: a pod that has used up the memory itself is evicted beside memory that stays
			unreclaimableMissing && !s.usedUp(pod.Pod, state)
		if pod.Skip == "" && pod.withinRequest() && spared {
			pod.Skip = SkipWithinRequest
		}
	}
	if crossed == "" {
		// Compares with the configured limit, not with the limit in force. Usage must be below it: at
		// exactly the limit the kernel would kill for the next page.
		d.LowerLimit = !c.Off && !c.DryRun && c.Lowering && c.Max() < s.Memory.Max && s.Memory.Used() < c.Max() &&
			!waiting(state.Open)
		return d
	}
	if crossed == Hard && waiting(state.Open) {
		for _, open := range state.Open {
			if open.Grace > 0 && open.phase != reclaimed {
				d.Hurry = append(d.Hurry, open)
				state.Base = math.MaxUint64 // they are signalled again
			}
		}
	}
	s.State = state
	d.Held = s.held(&d, stays, shortage)
	held := d.Held != "" && (len(d.Hurry) > 0 || !s.emergency(crossed, d.Held))
	if d.Held != "" && !held && s.remainsGrow(d.Order) {
		d.Victim = s.growingRemains(d.Order)
		if held = d.Victim == nil; held {
			// What has been taken so stays. The next fall counts from here.
			//guard: the fall of a shortage is that of memory that stays, once
			d.State.setBase(s)
		}
	}
	if held {
		if state.Base == 0 || s.Memory.Used() <= state.Base {
			d.State.setBase(s)
		}
		d.NoCandidate = d.Held == HoldUnreclaimable
		return d
	}
	heldBy := d.Held
	d.Held = ""
	for i := range d.Order {
		if d.Victim == nil && d.Order[i].Skip == "" {
			d.Victim = &d.Order[i].Pod
		}
	}
	switch {
	case d.Victim == nil && unreclaimableMissing:
		d.Held = cmp.Or(heldBy, HoldUnreclaimable)
		d.NoCandidate = d.Held == HoldUnreclaimable
		//guard: the next fall counts from what is left beside memory that stays
		d.State.setBase(s)
		return d
	case d.Victim == nil:
		d.NoCandidate = true
		return d
	}
	d.State.setBase(s)
	d.Method = s.method(*d.Victim)
	if crossed == Soft {
		// Follows the kubelet's soft thresholds (evictionManager.synchronize): the pod's own grace
		// period, but at most the configured one.
		d.Grace = d.Victim.GracePeriod
		if c.MaxPodGrace >= 0 {
			d.Grace = min(d.Grace, c.MaxPodGrace)
		}
		d.Grace = max(d.Grace, leastGrace)
	}
	return d
}

// leastGrace is the grace period that the kubelet gives each container at least
// (minimumGracePeriodInSeconds, pkg/kubelet/kuberuntime/kuberuntime_container.go). A soft
// threshold is set so that containers get SIGTERM first.
const leastGrace = 2 * time.Second

// method returns the method by which to evict a pod. Restart is for pods that come back. A pod
// that is being deleted, one that is never restarted and one without processes are evicted for
// good, even in the cooldown of their owner.
func (s Situation) method(p Pod) Method {
	switch {
	case !s.API || p.Static || p.Unknown:
		return Restart
	//guard: a pod that is being deleted is a candidate
	case p.Terminating, p.Empty, p.EndsForGood:
		return Evict
	case s.Now.Before(s.State.Cooldown[p.Owner]):
		return Restart
	}
	return Evict
}

// stays returns the memory of a pod, in bytes, that stopping it again would not bring back.
func (s Situation) stays(p Pod) uint64 {
	if p.Empty && (p.Evicted || s.method(p) != Evict) {
		return p.Usage.Used
	}
	return min(s.State.Unreclaimable[p.UID], p.Usage.Used)
}

// leftLately reports whether an eviction has left memory of no pod within the cooldown.
func (s Situation) leftLately() bool {
	//guard: a clock that was set back does not make it long
	age := s.Now.Sub(s.State.LeftAt)
	return age >= 0 && age < s.Config.Cooldown
}

// unknownPatience limits the time for which an unknown pod delays evictions. A reconcile takes
// longer if the runtime is slow, which it is when memory is low.
const unknownPatience = 5 * time.Second

// held returns the reason for which no other pod is to be evicted now. It updates d.State.
func (s Situation) held(d *Decision, stays, shortage uint64) Hold {
	switch {
	case s.waiting():
		// One at a time: the memory of the last eviction, or of the last kill, is not back yet.
		return HoldReclaiming
	case stays > 0 && stays >= shortage:
		return HoldUnreclaimable
	// A pod without processes does not grow.
	case !s.Awaited && !slices.ContainsFunc(s.Pods, func(p Pod) bool { return p.Unknown && !p.Empty }):
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

// waiting reports whether the memory of an eviction or of a kill is awaited.
func (s Situation) waiting() bool { return waiting(s.State.Open) || s.Evidence.dying(s.Now) }

// emergency reports whether available memory keeps falling while evictions are held back, so
// that another pod grows and the limit is near. Each such decision halves what has to be left for
// the next. Slabs that are stuck count too, because all of it may be used up between two polls,
// and then there is no half of it left to lose. It does not count while memory is awaited, or
// where it stays: another pod would be evicted for that memory. With little left at the Base a
// fall shows nothing (flutter).
func (s Situation) emergency(crossed Threshold, held Hold) bool {
	falling := s.State.Base+2*flutter <= s.Memory.Max && s.othersUsed() > s.halfway(s.State.Base)
	full := s.stuck() && held != HoldReclaiming && held != HoldUnreclaimable
	//guard: nobody else is evicted while an eviction frees memory
	return crossed == Hard && (falling || full) && !freeing(s.State.Open, s.Now) && !s.Evidence.freeing(s.Now)
}

// flutter is the memory that pods at rest take and give back, in bytes: for processes that start
// and end, and for what the kernel charges ahead, 256 KiB for each CPU and cgroup
// (MEMCG_CHARGE_BATCH, include/linux/memcontrol.h).
const flutter = 4 << 20

// othersUsed returns the usage of the partition in bytes without what evicted pods have grown by.
func (s Situation) othersUsed() uint64 {
	return s.Memory.Used() - min(s.victimsGrowth(), s.Memory.Used())
}

// victimsGrowth returns the bytes by which evicted pods have grown since they were chosen. They
// take memory until they have ended, and it comes back with the rest.
func (s Situation) victimsGrowth() uint64 {
	growth := uint64(0)
	for _, open := range s.State.Open {
		if open.phase == reclaimed || open.UsedBytes == 0 { // not awaited, or not measured
			continue
		}
		for i := range s.Pods {
			if p := &s.Pods[i]; p.UID == open.UID && p.Usage.Used > open.UsedBytes {
				growth += p.Usage.Used - open.UsedBytes
			}
		}
	}
	return growth
}
