package livemove

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"node-partition.io/node-partition/internal/systemd"
)

// transfer is one move under way.
type transfer struct {
	Mover
	Request
	newCgroup  string
	anchor     *anchor // in the new scope until other processes are
	record     record
	properties []systemd.Property
	// moved means that a round has had processes to move.
	moved bool
}

// prepare reads what the new scope needs besides properties, and starts the anchor, unless the
// container cannot be moved.
func (t *transfer) prepare() error {
	if err := t.movable(t.Cgroup); err != nil {
		return err
	}
	t.record = record{Scope: t.Scope, Cgroup: t.Cgroup, NewCgroup: t.newCgroup}
	var anchorErr error
	// The anchor takes as long to start as the files take to read, on another CPU.
	var starting sync.WaitGroup
	starting.Go(func() { t.anchor, anchorErr = newAnchor() })
	var err error
	t.record.Controls, err = t.readControls(t.Cgroup)
	starting.Wait()
	if absent(err) {
		err = fmt.Errorf("%w: %w", ErrGone, err)
	}
	return cmp.Or(err, anchorErr)
}

// run moves the container. It leaves a record for Recover until it is done.
func (t *transfer) run(ctx context.Context) error {
	if err := t.record.write(t.StateDir); err != nil {
		return fmt.Errorf("noting the move: %w", err)
	}
	if err := t.start(ctx); err != nil {
		return errors.Join(err, t.record.remove(t.StateDir))
	}
	// The files take as long as the processes, for which the kernel waits for all CPUs
	// (percpu_down_write of cgroup_threadgroup_rwsem). Their limits apply as soon as the processes
	// arrive.
	var finishErr error
	var finishing sync.WaitGroup
	finishing.Go(func() { finishErr = t.finish(t.record) })
	err := t.moveAll(ctx)
	if err == nil && t.moved {
		// The container keeps the scope alive now, and is to be alone in it when we return.
		t.anchor.end()
		<-t.anchor.gone
	}
	finishing.Wait()
	// What the kernel refuses at once it refuses at the next attempt too, for example a thread with a
	// real-time policy (cpu_cgroup_can_attach, RT_GROUP_SCHED). Without a rollback the container would
	// have twice its limits, in two scopes.
	//guard: a move whose first round fails is taken back
	if errors.Is(err, ErrOwnCgroups) || errors.Is(err, errFirstRound) {
		t.anchor.end()
		return t.rollBack(err)
	}
	if finishErr != nil {
		return errors.Join(err, finishErr)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errIncomplete, err)
	}
	if !t.moved {
		err = ErrGone
	}
	return errors.Join(err, t.record.remove(t.StateDir))
}

// moveAll empties the old scope.
func (t *transfer) moveAll(ctx context.Context) error {
	empty, err := t.rounds(softRounds)
	if err == nil && !empty {
		empty, err = t.frozenRounds(ctx)
	}
	if err == nil && !empty {
		err = errors.New("the old scope gets new processes again and again")
	}
	return err
}

// rollBack moves the processes in the new scope back to the old one, and returns why.
func (t *transfer) rollBack(why error) error {
	for range hardRounds {
		held, err := t.hold(t.newCgroup)
		if err == nil && held.count() == 0 {
			if err := t.record.remove(t.StateDir); err != nil && !absent(err) {
				return errors.Join(why, err)
			}
			return why
		}
		if err == nil {
			err = held.moveTo(t.dir(t.Cgroup))
			held.release()
		}
		if err != nil {
			return fmt.Errorf("%w: %w; moving back: %w", errIncomplete, why, err)
		}
	}
	return fmt.Errorf("%w: %w; the new scope gets new processes again and again", errIncomplete, why)
}

// finish writes to the new scope what the properties do not carry.
func (m Mover) finish(r record) error {
	err := m.writeControls(r.NewCgroup, r.Controls)
	if _, gone := os.Lstat(m.dir(r.NewCgroup)); absent(gone) {
		return nil // the container ended meanwhile
	}
	return err
}

// rounds moves the processes in the old scope, up to n times, and reports whether it is empty then.
func (t *transfer) rounds(n int) (empty bool, err error) {
	for range n {
		if empty, err := t.empty(); empty || err != nil {
			return empty, err
		}
		if err := t.round(); err != nil {
			return false, err
		}
	}
	return t.empty()
}

// errFirstRound means that processes that were there from the start could not be moved.
var errFirstRound = errors.New("the processes cannot be moved")

func (t *transfer) round() error {
	first := !t.moved
	err := t.moveHeld()
	if err != nil && first {
		return fmt.Errorf("%w: %w", errFirstRound, err)
	}
	return err
}

func (t *transfer) moveHeld() error {
	held, err := t.hold(t.Cgroup)
	if err != nil || held.count() == 0 {
		return err
	}
	defer held.release()
	t.moved = t.moved || held.count() > 0
	return held.moveTo(t.dir(t.newCgroup))
}

// empty reports whether the old scope has no processes. None can be forked there then.
func (t *transfer) empty() (bool, error) {
	populated, err := t.Cgroups.Populated(t.Cgroup)
	if err != nil || !populated {
		return err == nil, err
	}
	nested, err := t.Cgroups.HasChildren(t.Cgroup)
	if absent(err) {
		return true, nil // its last process has just ended, and systemd has removed it
	}
	if err != nil || !nested {
		return false, err
	}
	// The processes are in one of those cgroups, or on the way there.
	return false, ErrOwnCgroups
}

// start creates the new scope, with the anchor in it, or takes over the scope that a killed move
// has created.
//
// It does not start the scope with the processes of the container. systemd fails a scope if one of
// its first processes ends before it is moved, and leaves those that it has moved where they are:
// in a dead scope that cannot be started and whose name cannot be used (seen with 252.39, with a
// shell that forks all the time).
func (t *transfer) start(ctx context.Context) error {
	err := t.Systemd.StartScope(ctx, t.NewName, t.properties, []uint32{t.anchor.pid()})
	if errors.Is(err, systemd.ErrUnitExists) {
		return t.startExisting(ctx)
	}
	return err
}

func (t *transfer) startExisting(ctx context.Context) error {
	there, err := t.Systemd.ScopeProperties(ctx, t.NewName)
	if err != nil && !errors.Is(err, systemd.ErrNoUnit) {
		return err
	}
	var cgroup, result string
	there.Get("ControlGroup", &cgroup)
	there.Get("Result", &result)
	if cgroup == "" || result != "success" {
		// It has ended, and systemd has not unloaded it yet, or keeps it as failed until it is reset.
		if err := t.Systemd.ResetFailed(ctx, t.NewName); err != nil && !errors.Is(err, systemd.ErrNoUnit) {
			return err
		}
		return t.Systemd.StartScope(ctx, t.NewName, t.properties, []uint32{t.anchor.pid()})
	}
	if cgroup != "/"+t.newCgroup {
		return fmt.Errorf("%s is there already, in %s", t.NewName, cgroup)
	}
	// systemd is about to remove an empty scope, whatever is moved into it now.
	populated, err := t.Cgroups.Populated(t.newCgroup)
	if err == nil && !populated {
		err = fmt.Errorf("%s is going away; it is there again at the next attempt", t.NewName)
	}
	return err
}
