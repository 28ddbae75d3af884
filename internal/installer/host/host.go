// Package host holds the stages of the fleet installer that run on the host, as services of its
// systemd, and the way back.
package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nodepartition/internal/installer/manifest"
	"nodepartition/internal/installer/outcome"
	"nodepartition/internal/installer/sandbox"
	"nodepartition/internal/installer/store"
	"nodepartition/internal/kubeapi"
	"nodepartition/internal/trialend"
)

// Runner runs programs of the host.
type Runner interface {
	// Run runs a program until it ends. The error is for a program that could not be started, or
	// did not end by itself: an exit status is a part of the result.
	Run(ctx context.Context, name string, args ...string) (Ran, error)
}

// Ran is the result of a program.
type Ran struct {
	Stdout, Stderr string
	Status         int
}

// Cluster asks the API server as the kubelet of this node.
type Cluster interface {
	// NotReady returns why a node is not Ready, empty if it is.
	NotReady(ctx context.Context, node string) (string, error)
	PodsOn(ctx context.Context, node string) ([]kubeapi.PodState, error)
}

// Host is the node on which a stage runs.
type Host struct {
	store.Store
	// Programs runs programs.
	Programs Runner
	// Cluster returns the cluster, nil if the node has no credentials for one.
	Cluster func() (Cluster, error)
	// Now returns the time by a clock that is never set.
	Now func() (trialend.Moment, error)
	// Label returns the label of a file of SELinux.
	Label func(path string) (string, error)
	// Say notes progress for the journal.
	Say func(format string, args ...any)
}

// done has the sentences of a stage that has ended well.
type done []string

func said(format string, args ...any) done { return done{fmt.Sprintf(format, args...)} }

// Do runs a stage of a roll. A stage that fails after something was written has the node go back
// before Do returns.
func (h *Host) Do(ctx context.Context, stage sandbox.Stage, roll string) outcome.Outcome {
	var order manifest.Order
	if err := h.ReadJSON(store.Request(string(stage), roll), &order); err != nil {
		return outcome.Of(outcome.Refused, err)
	}
	//guard: a request for another roll is obeyed
	if order.Roll != roll {
		return outcome.Of(outcome.Refused, fmt.Errorf("the request is for roll %s, and the stage for roll %s", order.Roll, roll))
	}
	// A stage of a roll that is under way waits: at the deadline the way back has the lock, and the
	// state says afterwards what has become of the roll.
	//guard: one stage of the installer works on a node at a time
	//guard: a stage of a roll waits for the way back
	unlock, err := h.Lock(ctx, stage.Follows())
	if err != nil {
		return outcome.Of(begun(stage), err)
	}
	defer unlock()
	sentences, err := h.stage(ctx, stage, order)
	if err == nil {
		return outcome.Outcome{Sentences: sentences}
	}
	state, stateErr := h.State()
	if stateErr != nil {
		return outcome.Of(outcome.Remains, errors.Join(err, stateErr))
	}
	ended := state.Last != nil && state.Last.Roll == roll || state.Kept != nil && state.Kept.Roll == roll
	switch r := state.Roll; {
	case r == nil && ended && stage.Follows():
		return h.wentBack(roll, err, nil) // before this stage, or the roll was kept
	case r == nil || r.Roll != roll || r.Stage == manifest.Uninstalling:
		return outcome.Of(untouched(stage), err)
	}
	return h.fail(ctx, state, err, unlock)
}

// begun returns the status of a stage that another process keeps from the node.
func begun(stage sandbox.Stage) outcome.Status {
	if stage.Follows() {
		return outcome.Remains
	}
	return outcome.Refused
}

// untouched returns the status of a stage that has failed while its roll is not under way.
func untouched(stage sandbox.Stage) outcome.Status {
	switch stage {
	case sandbox.Preflight, sandbox.Install:
		return outcome.Refused
	case sandbox.Uninstall:
		return outcome.Remains
	}
	return outcome.WentBack // the way back was first, or nothing was installed
}

func (h *Host) stage(ctx context.Context, stage sandbox.Stage, o manifest.Order) (done, error) {
	switch stage {
	case sandbox.Preflight:
		return h.preflight(ctx, o)
	case sandbox.Install:
		return h.install(ctx, o)
	case sandbox.Apply:
		return h.apply(ctx, o)
	case sandbox.Verify:
		return h.verify(ctx, o)
	case sandbox.Keep:
		return h.keep(ctx, o)
	case sandbox.Uninstall:
		return h.uninstall(ctx, o)
	}
	return nil, fmt.Errorf("unknown stage %q", stage)
}

// fail notes that a stage of the roll has failed, and has the node go back. The service of the way
// back does that, with the rights that it takes: this stage has others.
func (h *Host) fail(ctx context.Context, state manifest.State, cause error, unlock func()) outcome.Outcome {
	// The pod, and who waits for it, may have given up. The node goes back all the same.
	ctx = context.WithoutCancel(ctx)
	roll := state.Roll.Roll
	state.Roll.Failed, state.Roll.Reason = cause.Error(), string(outcome.ReasonOf(cause))
	err := h.SetState(state)
	unlock()
	if err == nil {
		h.Say("%v: going back", cause)
		_, err = h.systemctl(ctx, "start", backService)
	}
	if err != nil {
		// Its unit file is missing, or systemd does not start it: nothing but what this stage may
		// write can have been changed before the unit file, and the timer tries what is left.
		err = errors.Join(err, h.Back(ctx, true))
	}
	return h.wentBack(roll, cause, err)
}

// wentBack returns the outcome of a roll whose way back has ended with an error, or without one.
func (h *Host) wentBack(roll string, cause, backErr error) outcome.Outcome {
	state, err := h.State()
	switch {
	case err != nil:
		return outcome.Of(outcome.Remains, cause, err.Error())
	case state.Kept != nil && state.Kept.Roll == roll:
		return outcome.Outcome{Sentences: []string{
			"the section was made permanent before the stage failed, and the roll is kept", cause.Error(),
		}}
	case state.Roll != nil:
		why := "it is tried again until it succeeds"
		if backErr != nil {
			why = backErr.Error()
		}
		return outcome.Of(outcome.Remains, cause, fmt.Sprintf(
			"the node is not as before: the way back has not ended (%s); journalctl -u %s on the node has the reason", why, backService,
		))
	//guard: the installer does not say that a node is as before when it is not
	case state.Last != nil && state.Last.Roll == roll && len(state.Last.Remains) > 0:
		return outcome.Of(outcome.Remains, cause, append([]string{"the node went back, and is not as before:"}, state.Last.Remains...)...)
	}
	return outcome.Of(outcome.WentBack, cause, "the node went back, and is as before: files, units and cgroups were compared")
}

// Same reports whether a kept node still has what was kept, file by file. It writes nothing.
func (h *Host) Same() (bool, error) {
	state, err := h.State()
	if err != nil || state.Kept == nil || state.Roll != nil {
		return false, err
	}
	for _, f := range state.Kept.Files {
		was, err := h.Present(f.Path)
		if err != nil || !was.Is(f) {
			return false, err
		}
	}
	return true, nil
}

// pauseBetweenLooks is the time between two looks at something that systemd, or the cluster, does
// not report by itself.
const pauseBetweenLooks = time.Second

// pause waits between two looks. It reports false when ctx has ended.
func pause(ctx context.Context) bool {
	timer := time.NewTimer(pauseBetweenLooks)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
