package fleet

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Annotations of the Lease that is the lock.
const (
	releaseAnnotation  = prefix + "release"
	revisionAnnotation = prefix + "revision"
	// nextAnnotation has the claim that waits for the lock.
	nextAnnotation = prefix + "next"
	// rolledAnnotation has the ID of the last roll that came to its end, unless failures have
	// stopped an add since. Without it, add does nothing: what a failure has stopped must not go on
	// by a schedule.
	rolledAnnotation = prefix + "rolled"
)

// Claim says for which roll a dispatcher wants the lock.
type Claim struct {
	// Release is the release as "namespace/name", and Revision the number of its roll-out.
	Release  string
	Revision int
	Action   Action
	// Roll is the ID of the roll, for Add of the roll to which it adds.
	Roll string
}

// LeaseFor is the time for which a holder of the lock may be silent before another process takes
// it.
const LeaseFor = time.Minute

// Lock is the lock as the API server has it.
type Lock struct {
	// Version and UID belong to the Lease. They are empty before it exists.
	Version, UID string
	// Holder identifies the process that holds it, empty if none does.
	Holder string
	// Duration is the time for which the holder may be silent.
	Duration time.Duration
	// Transitions counts the holders.
	Transitions int32
	// Annotations hold the claim of the holder, or of the last one, and who waits.
	Annotations map[string]string
}

// Claim returns the claim of the holder, or of the last one.
func (l *Lock) claim() Claim {
	// An annotation that somebody else wrote counts as 0.
	revision, _ := strconv.Atoi(l.Annotations[revisionAnnotation])
	return Claim{
		Release: l.Annotations[releaseAnnotation], Revision: revision,
		Action: Action(l.Annotations[ActionLabel]), Roll: l.Annotations[RollLabel],
	}
}

// next returns the claim that waits for the lock, nil if none does.
func (l *Lock) next() *Claim {
	parts := strings.Fields(l.Annotations[nextAnnotation])
	if len(parts) != 3 {
		return nil
	}
	revision, err := strconv.Atoi(parts[1])
	if err != nil {
		return nil
	}
	return &Claim{Release: l.claim().Release, Action: Action(parts[0]), Revision: revision, Roll: parts[2]}
}

// String returns "roll 0123456789 (install, release ns/name, revision 2)".
func (c Claim) String() string {
	return fmt.Sprintf("roll %s (%s, release %s, revision %d)", c.Roll, c.Action, c.Release, c.Revision)
}

// precedes reports whether a roll gives way to c: to a removal, to a later revision of its release,
// and if it adds nodes, to a roll of all. No roll gives way to a schedule.
func (c Claim) precedes(other Claim) bool {
	switch {
	//guard: no roll gives way to a schedule
	case c.Action == Add:
		return false
	case c.Action == Uninstall || other.Action == Uninstall:
		return other.Action != Uninstall
	case c.Revision != other.Revision:
		return c.Revision > other.Revision
	}
	return c.Action == Install && other.Action == Add
}

// Verdict says what a dispatcher may do about the lock.
type Verdict int

// The verdicts.
const (
	// Take: write the Lease as Taken returns it.
	Take Verdict = iota
	// Ask: write the Lease as Asked returns it, and wait.
	Ask
	// Await: another process may hold the lock. Look again.
	Await
	// Yield: end without an error; another time may be better.
	Yield
	// Refuse: end with an error.
	Refuse
)

// Judge returns what a dispatcher may do. l is nil without a Lease. unchanged is the time for
// which this process has seen no change of the Lease, by its own clock: clocks of two machines are
// not compared. renewed means that it has seen one.
func (c Claim) Judge(l *Lock, unchanged time.Duration, renewed bool) (v Verdict, why string) {
	if l == nil {
		if c.Action == Add {
			return Yield, "no roll of this release has come to its end"
		}
		return Take, ""
	}
	last := l.claim()
	//guard: a Lease without a duration is not free at once
	held := l.Holder != "" && unchanged < max(l.Duration, LeaseFor)
	switch {
	case last.Release != "" && last.Release != c.Release && c.Action == Uninstall:
		return Yield, "the nodes of this cluster belong to the release " + last.Release
	case last.Release != "" && last.Release != c.Release:
		return Refuse, fmt.Sprintf("the nodes of this cluster belong to the release %s: uninstall it first. If it is gone, delete the Lease",
			last.Release)
	case c.Action != Uninstall && last.Revision > c.Revision && c.Action == Add:
		return Yield, last.String() + " is later than this one"
	case c.Action != Uninstall && last.Revision > c.Revision:
		return Refuse, last.String() + " is later than this one. If the release was deleted meanwhile, delete the Lease"
	case held && c.Action == Add && renewed:
		return Yield, last.String() + " goes on"
	case held && c.Action == Install && last.Action == Uninstall:
		return Refuse, last.String() + " removes the release"
	case held:
		next := l.next()
		if c.precedes(last) && (next == nil || c.precedes(*next)) {
			return Ask, last.String() + " goes on, and is asked to give way"
		}
		return Await, last.String() + " goes on"
	//guard: add does not continue what a failure has stopped
	case c.Action == Add && l.Annotations[rolledAnnotation] != c.Roll:
		return Yield, "the last roll of this release has not come to its end, or failures have stopped it: " + last.String()
	}
	return Take, ""
}

// Continues reports whether the last holder of the lock did not come to the end of the same
// removal: the end takes the revision away, so that another attempt has another claim.
func (c Claim) Continues(l *Lock) bool {
	//guard: another attempt of a removal tries again what failed
	return c.Action == Uninstall && l != nil && l.claim() == c
}

// Ended says what a holder leaves behind in the Lease.
type Ended int

// The ends.
const (
	// Interrupted leaves the roll to be continued.
	Interrupted Ended = iota
	// Stopped means that nodes are left, and for Add that failures are why.
	Stopped
	// Over means that each node has had its turn.
	Over
)

// Taken returns the Lease with a claim and its holder.
func (c Claim) Taken(l *Lock, holder string) *Lock {
	taken := &Lock{Annotations: map[string]string{}}
	if l != nil {
		*taken = *l
		taken.Annotations = merged(l.Annotations, nil)
		taken.Transitions++
	}
	//guard: who waited for the last holder of the lock does not wait for the next one
	taken.Holder, taken.Duration = holder, LeaseFor
	delete(taken.Annotations, nextAnnotation)
	if c.Action != Add {
		delete(taken.Annotations, rolledAnnotation)
	}
	for name, value := range map[string]string{
		releaseAnnotation: c.Release, revisionAnnotation: strconv.Itoa(c.Revision),
		ActionLabel: string(c.Action), RollLabel: c.Roll,
	} {
		taken.Annotations[name] = value
	}
	return taken
}

// Asked returns the Lease with a claim that waits.
func (c Claim) Asked(l *Lock) *Lock {
	asked := *l
	asked.Annotations = merged(l.Annotations, map[string]string{
		nextAnnotation: fmt.Sprintf("%s %d %s", c.Action, c.Revision, c.Roll),
	})
	return &asked
}

// Released returns the Lease without a holder.
func (c Claim) Released(l *Lock, end Ended) *Lock {
	released := *l
	released.Annotations = merged(l.Annotations, nil)
	released.Holder = ""
	delete(released.Annotations, nextAnnotation)
	switch {
	//guard: an add that failures have stopped does not go on by its schedule
	case c.Action == Add && end == Stopped:
		delete(released.Annotations, rolledAnnotation)
	case c.Action == Install && end == Over:
		released.Annotations[rolledAnnotation] = c.Roll
	//guard: a removal that was interrupted keeps its revision
	case c.Action == Uninstall && end != Interrupted:
		// A release that is installed again begins with revision 1.
		delete(released.Annotations, revisionAnnotation)
	}
	return &released
}

// GivesWay returns the claim to which the holder of the lock gives way, nil if none waits.
func (c Claim) GivesWay(l *Lock) *Claim {
	if next := l.next(); next != nil && next.precedes(c) {
		return next
	}
	return nil
}
