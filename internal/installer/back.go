package installer

import (
	"context"
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
)

// Back has the node go back if it is time, or at once with now. It may be killed at each point, and
// called again. It is the same for the timer, for a boot and for an operator. With now it is an
// error if the node is not as before.
func (h *Host) Back(ctx context.Context, now bool) error {
	unlock, err := h.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	state, err := h.State()
	if err != nil {
		return err
	}
	moment, err := h.Now()
	if err != nil {
		return err
	}
	//guard: a way back that comes before its time does nothing
	if r := state.Rollout; r != nil && !now && !r.Due(moment) {
		h.Say("it is not time to go back: the change goes on")
		return nil
	}
	if state, err = h.endKilled(ctx, state); err != nil {
		return err
	}
	if now && state.Before != nil {
		files, rest, missing := h.remains(ctx, state.Before)
		if err = missing; err == nil && len(files)+len(rest) > 0 {
			err = errors.New(strings.Join(slices.Concat([]string{notAsBefore}, files, rest), "\n"))
		}
	}
	return errors.Join(err, h.Clean(state))
}

// notAsBefore begins the list of what remains returns.
const notAsBefore = "the node went back, and is not as before:"

// remains returns what is not as before a change that went back.
func (h *Host) remains(ctx context.Context, before *record.Snapshot) (files, rest []string, err error) {
	now, err := h.snapshot(ctx, layoutOf(before))
	if err == nil {
		files, rest = record.Differences(*before, now)
	}
	return files, rest, err
}

// endRollout goes back, or finishes a rollout that has made its section permanent. The rename
// decides that it is kept, also if it was killed after it.
func (h *Host) endRollout(ctx context.Context, state record.State) error {
	r := state.Rollout
	//guard: the section decides whether a roll that was killed in keep is kept
	if r.Keeping {
		is, err := h.Present(kubeletconfig.OverridePath)
		if err != nil {
			return err
		}
		if is.SHA256 == r.Section {
			h.Say("the section was made permanent, and is kept")
			if err := h.endTrial(ctx, r); err != nil {
				return err
			}
			return h.finish(ctx, state)
		}
	}
	return h.goBack(ctx, state)
}

// goBack undoes a rollout.
func (h *Host) goBack(ctx context.Context, state record.State) error {
	r := state.Rollout
	if !r.Failed {
		r.Failed = true
		//guard: a full disk keeps the node from going back
		if err := h.SetState(state); err != nil {
			h.Say("%v", err)
		}
	}
	before := sorted(r.Before.Units)
	if err := h.endTrial(ctx, r); err != nil {
		return err
	}
	if r.From != "" {
		h.await(ctx, without(h.slices(kubepods), before))
	} else if err := h.switchOff(ctx); err != nil {
		return err
	}
	if err := h.putBack(r); err != nil {
		return err
	}
	if _, err := h.systemctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	var err error
	if r.From != "" {
		err = h.useOld(ctx, r, before)
	} else {
		//guard: the way back leaves no slice of a monitor that could not start
		err = h.clearUp(ctx, before)
	}
	if err != nil {
		return err
	}
	remains, err := h.settle(ctx, &r.Before)
	if err != nil {
		return err
	}
	//guard: a disk that the new files have filled keeps the node from going back
	if err := errors.Join(h.prune(), h.Remove(h.In(Monitor))); err != nil {
		return err
	}
	state.Rollout = nil
	for _, text := range remains {
		h.Say("not as before: %s", text)
	}
	// What an earlier change has left is not as before, either.
	if len(remains) > 0 && state.Before == nil {
		state.Before = &r.Before
	}
	if err := h.SetState(state); err != nil {
		return err
	}
	return h.tidy(ctx)
}

// layoutOf returns the layout that a change is about, by the node before it.
func layoutOf(before *record.Snapshot) layout {
	usr, etc := layouts()
	if _, is := before.Files[etc.current()]; is {
		return etc
	}
	return usr
}

// endTrial ends the trial of the rollout, if it runs.
func (h *Host) endTrial(ctx context.Context, r *record.Rollout) error {
	if !r.Tries || h.isOurOff() {
		return nil
	}
	timer, err := h.show(ctx, "ActiveState", "node-partition-trial.timer")
	if err != nil {
		return err
	}
	if !h.Root.Exists(kubeletconfig.TrialPath) && timer[0]["ActiveState"] != "active" {
		return nil
	}
	_, err = h.Programs.Run(ctx, h.onDisk(path.Join(layoutOf(&r.Before).base, r.To, monitorFile)), "try", "--end")
	if !h.Root.Exists(kubeletconfig.TrialPath) {
		return nil // its timer may have been first
	}
	return err
}

// putBack puts the files back that a rollout has changed. The folder of its version is removed
// later.
func (h *Host) putBack(r *record.Rollout) error {
	l := layoutOf(&r.Before)
	if err := h.unlink(l, r.Before.Files); err != nil {
		return err
	}
	if r.From != "" {
		if err := h.Link(r.From, l.current()); err != nil {
			return err
		}
	} else if err := h.Remove(l.current()); err != nil {
		return err
	}
	// keep writes the section under another name first, which ends with a number (renameio). An
	// editor's hidden file has another end.
	folder, err := h.Root.Path(path.Dir(kubeletconfig.OverridePath))
	if err != nil {
		return err
	}
	//guard: the way back removes an editor's file beside the section
	halves, err := filepath.Glob(filepath.Join(folder, "."+path.Base(kubeletconfig.OverridePath)+"[0-9]*"))
	if err != nil {
		return err
	}
	for _, half := range halves {
		if err := h.Remove(path.Join(path.Dir(kubeletconfig.OverridePath), filepath.Base(half))); err != nil {
			return err
		}
	}
	if r.From != "" {
		return nil
	}
	return h.dropTrial()
}

// dropTrial removes the section that has switched the partitions off.
func (h *Host) dropTrial() error {
	if !h.isOurOff() {
		return nil
	}
	return h.Remove(kubeletconfig.TrialPath)
}

// useOld makes systemd use the files of the version before, as an installation of that would.
func (h *Host) useOld(ctx context.Context, r *record.Rollout, before []string) error {
	if r.From != r.To {
		h.attempt(ctx, "reset-failed", partition.MonitorService)
		//guard: a monitor that was starting before a roll is not restarted with the old files
		if slices.Contains(startedStates, r.Before.Units[partition.MonitorService]) {
			// Settings with which it does not start are gone now. In a boot it waits for the
			// runtime.
			h.attempt(ctx, "restart", "--no-block", partition.MonitorService)
		}
	}
	//guard: a way back that was killed while the trial ended leaves the limits of the trial
	h.realize(ctx)
	return h.stopEmpty(ctx, before)
}

// startedStates lists the states of a service that runs, or is about to.
var startedStates = []string{"active", "activating", "reloading"}

// settling bounds the looks, a second apart, at a monitor that stops or starts: its unit
// allows 30 s for the one, and 90 s for the other.
const settling = 125

// settle waits until what was active before is active again, and returns what is not as before. It
// gives up sooner if nothing is on its way to that.
func (h *Host) settle(ctx context.Context, before *record.Snapshot) ([]string, error) {
	for looks, idle := 0, 0; ; looks++ {
		files, rest, err := h.remains(ctx, before)
		//guard: a way back waits for ever for a monitor that does not start
		if err != nil || len(rest) == 0 || looks == settling || idle == idleness || !pause(ctx) {
			return append(files, rest...), err
		}
		idle++
		if state := h.monitorState(ctx); state == "activating" || state == "deactivating" {
			//guard: a monitor that takes its time to start is reported as one that is gone
			idle = 0
		}
	}
}

// without returns the elements of a that are not in b.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}
