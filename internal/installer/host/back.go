package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"nodepartition/internal/installer/manifest"
	"nodepartition/internal/installer/outcome"
	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/unitname"
)

// Back has the node go back if it is time, or at once with now. It may be killed at each point, and
// called again. It is the same for the timer, for a boot, and for a stage that has failed.
func (h *Host) Back(ctx context.Context, now bool) error {
	unlock, err := h.Lock(ctx, true)
	if err != nil {
		return err
	}
	defer unlock()
	state, err := h.State()
	if err != nil {
		return err
	}
	r := state.Roll
	if r == nil {
		return h.tidy(ctx) // it was killed before its end
	}
	//guard: the way back takes an uninstallation for a roll
	if r.Stage == manifest.Uninstalling {
		return nil // another call of the same uninstallation goes on with it
	}
	moment, err := h.Now()
	if err != nil {
		return err
	}
	//guard: a way back that comes before its time does nothing
	if !now && !r.Due(moment) {
		h.Say("it is not time to go back: roll %s goes on", r.Roll)
		return nil
	}
	if kept, err := h.renamed(r); err != nil {
		return err
	} else if kept {
		h.Say("roll %s was kept", r.Roll)
		return h.finish(ctx, state)
	}
	return h.goBack(ctx, state, r.Deadline.Boot != moment.Boot)
}

// renamed reports whether a roll has made its section permanent. The rename decides that it is
// kept, also if keep was killed after it.
func (h *Host) renamed(r *manifest.Roll) (bool, error) {
	//guard: the section decides whether a roll that was killed in keep is kept
	if r.Stage != manifest.Keeping || !r.Tries {
		return false, nil
	}
	is, err := h.Present(kubeletconfig.OverridePath)
	return is.SHA256 == r.Section, err
}

// goBack undoes a roll. rebooted means that units and cgroups have come with another boot since.
func (h *Host) goBack(ctx context.Context, state manifest.State, rebooted bool) error {
	r := state.Roll
	if r.Failed == "" {
		r.Failed = "the roll did not end in its time: its installer, the API server or the network was gone"
		r.Reason = string(outcome.Timeout)
		// Noted before anything is undone: a stage that waits for the lock does not go on with the
		// roll if this attempt fails. A full disk does not keep the node from going back.
		//guard: a stage goes on with a roll that has begun to go back
		if err := h.SetState(state); err != nil {
			h.Say("%v", err)
		}
	}
	before := make([]string, 0, len(r.Before.Units))
	for unit := range r.Before.Units {
		before = append(before, unit)
	}
	hadPrograms := r.Before.Files[monitorPath].Exists || !changesOf(r, []string{monitorPath})
	if err := h.endTrial(ctx, r); err != nil {
		return err
	}
	if hadPrograms {
		h.await(ctx, without(h.partitionSlices(), before))
	} else if err := h.switchOff(ctx); err != nil {
		return err
	}
	remains, err := h.putBack(ctx, r)
	if err != nil {
		return err
	}
	if !hadPrograms {
		if err := h.dropTrial(); err != nil {
			return err
		}
	}
	if _, err := h.systemctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	if hadPrograms {
		err = h.useOld(ctx, r, before)
	} else {
		//guard: the way back leaves no slice of a monitor that could not start
		err = h.clearUp(ctx, before)
	}
	if err != nil {
		return err
	}
	if text, err := h.restartRuntime(ctx, state); err != nil {
		return err
	} else if text != "" {
		remains = append(remains, text)
	}
	if !rebooted {
		h.settle(ctx, r)
	}
	now, err := h.snapshot(ctx, pathsOf(r))
	if err != nil {
		return err
	}
	for _, d := range manifest.Differences(r.Before, now, rebooted) {
		if !slices.Contains(remains, d) {
			remains = append(remains, d)
		}
	}
	ended := &manifest.Ended{Roll: r.Roll, Reason: r.Reason, Why: r.Failed, Remains: remains}
	if len(remains) > 0 {
		moment, err := h.Now()
		if err != nil {
			return err
		}
		ended.Before, ended.Boot = &r.Before, moment.Boot
	}
	state.Roll, state.Last = nil, ended
	if err := h.SetState(state); err != nil {
		return err
	}
	for _, text := range remains {
		h.Say("not as before: %s", text)
	}
	return h.tidy(ctx)
}

// restartRuntime restarts the runtime with its old configuration, and returns what remains of the
// new one. systemd repeats a way back that fails every half a minute, and the runtime is restarted
// once: the state records it afterwards. The state is also written before, so that a full disk
// prevents the restart. A way back that was killed between the two restarts the runtime again.
func (h *Host) restartRuntime(ctx context.Context, state manifest.State) (remains string, err error) {
	r := state.Roll
	if r.Restarted == "" {
		return "", nil
	}
	//guard: the way back restarts the runtime at each attempt while the disk is full
	if err := h.SetState(state); err != nil {
		return "", fmt.Errorf("%s is not restarted before the state can be written: %w", r.Restarted, err)
	}
	if _, err := h.systemctl(ctx, "restart", r.Restarted); err != nil {
		return fmt.Sprintf("%s has its old configuration, and was not restarted: %v", r.Restarted, err), nil
	}
	//guard: the way back restarts the runtime at each attempt while it cannot end
	r.Restarted = ""
	return "", h.SetState(state)
}

// endTrial ends the trial of the roll, if it runs.
func (h *Host) endTrial(ctx context.Context, r *manifest.Roll) error {
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
	ran, err := h.Programs.Run(ctx, h.brought(), "try", "--end")
	if err != nil {
		return err
	}
	if ran.Status != 0 && h.Root.Exists(kubeletconfig.TrialPath) {
		return fmt.Errorf("partition-monitor try --end: exit status %d: %s", ran.Status, ran.Stderr)
	}
	return nil // else its timer was first
}

// putBack puts the files back that a roll has changed. One that somebody has changed since, and one
// that cannot be removed, is left and named, and the others are put back. A backup that cannot be
// put back is an error: the roll does not end before it is, and with it the backup.
func (h *Host) putBack(ctx context.Context, r *manifest.Roll) (remains []string, err error) {
	var written []string
	var errs []error
	// remove removes what an attempt after this one could not remove either. A file system that is
	// read-only for the moment is another matter.
	remove := func(name string, remove func(string) error) {
		switch err := remove(name); {
		//guard: a path that cannot be removed stops the way back
		case errors.Is(err, unix.EROFS):
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		case err != nil:
			if text := fmt.Sprintf("%s could not be removed: %v", name, err); !slices.Contains(remains, text) {
				remains = append(remains, text)
			}
		}
	}
	for _, c := range slices.Backward(r.Changes) {
		remove(c.Path, h.Tidy)
		is, err := h.Present(c.Path)
		switch {
		case err != nil:
		case is == c.Was:
		//guard: an installer's file that somebody has changed is not overwritten on the way back
		case is.Exists && !is.Is(c.File):
			remains = append(remains, c.Path+" was changed while the roll was under way, and stays as it is")
		case !c.Was.Exists:
			remove(c.Path, h.Remove)
		default:
			err = h.Copy(h.backup(c), c.Path, c.Was.Mode)
			written = append(written, c.Path)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Path, err))
		}
	}
	if changesOf(r, []string{monitorPath}) && !r.Before.Files[monitorPath].Exists {
		remove(manifest.Docs, h.RemoveEmpty)
	}
	// keep writes the section under another name first, which ends with a number (renameio). An
	// editor's hidden file has another end.
	folder, err := h.Root.Path(path.Dir(kubeletconfig.OverridePath))
	if err != nil {
		return nil, err
	}
	//guard: the way back removes an editor's file beside the section
	halves, err := filepath.Glob(filepath.Join(folder, "."+path.Base(kubeletconfig.OverridePath)+"[0-9]*"))
	if err != nil {
		return nil, err
	}
	for _, half := range halves {
		remove(path.Join(path.Dir(kubeletconfig.OverridePath), filepath.Base(half)), h.Remove)
	}
	//guard: a backup that cannot be put back is deleted with the roll
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return remains, h.relabel(ctx, written)
}

// dropTrial removes the section that has switched the partitions off.
func (h *Host) dropTrial() error {
	if !h.isOurOff() {
		return nil
	}
	return h.Remove(kubeletconfig.TrialPath)
}

// useOld makes systemd use the files of the version before, as an installation of that would.
func (h *Host) useOld(ctx context.Context, r *manifest.Roll, before []string) error {
	if len(r.Changes) > 0 {
		h.attempt(ctx, "reset-failed", unitname.MonitorService)
		//guard: a monitor that was starting before a roll is not restarted with the old files
		if slices.Contains(startedStates, r.Before.Units[unitname.MonitorService]) {
			// Settings with which it does not start are gone now. In a boot it waits for the
			// runtime.
			h.attempt(ctx, "restart", "--no-block", unitname.MonitorService)
		}
	}
	return h.stopEmpty(ctx, before)
}

// startedStates lists the states of a service that runs, or is about to.
var startedStates = []string{"active", "activating", "reloading"}

// settling bounds the looks, a second apart, at a monitor that stops or starts: its unit
// allows 30 s for the one, and 90 s for the other.
const settling = 125

// settle waits until what was active before is active again. It gives up sooner if nothing is on
// its way to that.
func (h *Host) settle(ctx context.Context, r *manifest.Roll) {
	//guard: a way back waits for ever for a monitor that does not start
	for looks, idle := 0, 0; looks < settling && idle < idleness; looks++ {
		now, err := h.snapshot(ctx, pathsOf(r))
		if err == nil && len(manifest.Differences(r.Before, now, false)) == 0 {
			return
		}
		idle++
		if state := now.Units[unitname.MonitorService]; state == "activating" || state == "deactivating" {
			//guard: a monitor that takes its time to start is reported as one that is gone
			idle = 0
		}
		if !pause(ctx) {
			return
		}
	}
}

// without returns the elements of a that are not in b.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}

// errOwned refuses to remove files that a package has taken over.
func (h *Host) errOwned(ctx context.Context) error {
	owner, err := h.owner(ctx)
	if err == nil && owner != "" {
		err = outcome.Because(outcome.ForeignFile, "the files that this installer wrote are somebody else's now: %s", owner)
	}
	return err
}

// endRoll ends a roll that is under way before an uninstallation.
func (h *Host) endRoll(ctx context.Context, state manifest.State) error {
	r := state.Roll
	if kept, err := h.renamed(r); err != nil {
		return err
		//guard: an uninstallation leaves the section of a roll that was killed in keep
	} else if kept {
		return h.finish(ctx, state) // and the section is removed with the files
	}
	h.Say("roll %s has not ended: going back first", r.Roll)
	now, err := h.Now()
	if err != nil {
		return err
	}
	return h.goBack(ctx, state, r.Deadline.Boot != now.Boot)
}

// errRemains returns what the last way back has left on the node, and is still there. It is not
// removed: it was somebody's, or could not be removed. just means that this way back has ended just
// now, and its own words say more than another look.
func (h *Host) errRemains(ctx context.Context, last *manifest.Ended, just bool) error {
	if last == nil || len(last.Remains) == 0 {
		return nil
	}
	remains := last.Remains
	//guard: an uninstallation fails for ever because of what was put in order
	if !just && last.Before != nil {
		moment, err := h.Now()
		if err != nil {
			return err
		}
		now, err := h.snapshot(ctx, slices.Collect(maps.Keys(last.Before.Files)))
		if err != nil {
			return err
		}
		// What has come since then, such as a package, is none of the roll. Each sentence begins
		// with the name of what it is about.
		about := func(text string) string { name, _, _ := strings.Cut(text, " "); return name }
		still := manifest.Differences(*last.Before, now, moment.Boot != last.Boot)
		remains = slices.DeleteFunc(still, func(d string) bool {
			//guard: an uninstallation reports a package that came since as what the way back left
			return !slices.ContainsFunc(last.Remains, func(was string) bool { return about(was) == about(d) })
		})
	}
	if len(remains) == 0 {
		return nil
	}
	return fmt.Errorf("roll %s went back, and the node is not as before: put this in order, and uninstall again:\n%s",
		last.Roll, strings.Join(remains, "\n"))
}

// uninstall switches the partitions off, and removes the files of this installer.
func (h *Host) uninstall(ctx context.Context, o manifest.Order) (done, error) {
	state, err := h.State()
	if err != nil {
		return nil, err
	}
	under := state.Roll != nil && state.Roll.Stage != manifest.Uninstalling
	if under {
		if err := h.endRoll(ctx, state); err != nil {
			return nil, err
		}
		if state, err = h.State(); err != nil {
			return nil, err
		}
	}
	if state.Kept == nil {
		//guard: an uninstallation says that nothing is to be done where the way back left something
		if err := h.errRemains(ctx, state.Last, under); err != nil {
			return nil, err
		}
		return said("nothing to do: this installer has nothing on the node"), nil
	}
	//guard: an uninstallation removes the files of a package
	if err := h.errOwned(ctx); err != nil {
		return nil, err
	}
	if state.Roll == nil {
		state.Roll = &manifest.Roll{Wish: o.Wish, Stage: manifest.Uninstalling}
		// Noted before the drop-in is removed: a call after this one does not find it any more.
		//guard: an uninstallation that was killed leaves NRI on in the runtime
		if state.Roll.Restarted, err = h.servedBy(state.Kept.Files); err != nil {
			return nil, err
		}
		if err := h.SetState(state); err != nil {
			return nil, err
		}
	}
	if err := h.switchOff(ctx); err != nil {
		return nil, err
	}
	staying := h.staying(ctx)
	remove, changed := manifest.Removal(state.Kept.Files, func(name string) manifest.Present {
		is, presentErr := h.Present(name)
		err = errors.Join(err, presentErr)
		return is
	})
	if err != nil {
		return nil, err
	}
	for _, f := range remove {
		if err := h.Remove(f.Path); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	if err := h.RemoveEmpty(manifest.Docs); err != nil {
		return nil, err
	}
	if err := h.dropTrial(); err != nil {
		return nil, err
	}
	if _, err := h.systemctl(ctx, "daemon-reload"); err != nil {
		return nil, err
	}
	if err := h.clearUp(ctx, nil); err != nil {
		return nil, err
	}
	sentences := said("uninstalled: %s", counted(len(remove), "file was removed", "files were removed"))
	if restart := state.Roll.Restarted; restart != "" {
		if _, err := h.systemctl(ctx, "restart", restart); err != nil {
			return nil, err
		}
		sentences = append(sentences, restart+" was restarted without the drop-in for NRI")
	}
	for _, name := range changed {
		sentences = append(sentences, name+" stays: it was changed after this installer wrote it")
	}
	sentences = append(sentences, staying...)
	if err := h.tidy(ctx); err != nil {
		return nil, err
	}
	return sentences, h.SetState(manifest.State{})
}

// staying has a sentence for the pods that stay in slices of partitions.
func (h *Host) staying(ctx context.Context) []string {
	n := h.pods(h.partitionSlices())
	if n == 0 {
		return nil
	}
	texts := []string{counted(n, "pod stays in the slice of a partition, without its limit, until it starts again", "pods stay in the slice of a partition, without its limit, until they start again")}
	status, err := h.status(ctx, h.brought())
	if err != nil {
		return texts
	}
	for i := range status.Pods {
		if p := &status.Pods[i]; p.Misplaced > 0 {
			texts = append(texts, fmt.Sprintf("pod %s/%s stays (%s)", p.Namespace, p.Name, p.Reason))
		}
	}
	return texts
}
