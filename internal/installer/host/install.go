package host

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"nodepartition/internal/installer/manifest"
	"nodepartition/internal/installer/outcome"
	"nodepartition/internal/installer/store"
	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/oneline"
	"nodepartition/internal/unitname"
)

// The settings of the programs, which a roll writes if it has some.
const settingsPath = kubeletconfig.SettingsPath

// preflight reports whether the node can have what the order brings. It writes nothing.
func (h *Host) preflight(ctx context.Context, o manifest.Order) (done, error) {
	state, err := h.State()
	if err != nil {
		return nil, err
	}
	if r := state.Roll; r != nil && r.Roll == o.Roll && r.Same(o.Wish) {
		return said("roll %s is under way on this node, and goes on", o.Roll), nil
	}
	if _, err := h.plan(ctx, state, o); err != nil {
		return nil, err
	}
	v, err := h.validate(ctx, h.brought())
	if err == nil {
		err = errorOfSection(v)
	}
	if err != nil {
		return nil, err
	}
	found, err := h.check(ctx, h.brought())
	if err == nil {
		err = errorOf(found)
	}
	if err != nil {
		return nil, err
	}
	return said("this node can have version %s and the section", o.Version), nil
}

// plan returns the roll for an order, or why the node cannot have it. It writes nothing.
func (h *Host) plan(ctx context.Context, state manifest.State, o manifest.Order) (*manifest.Roll, error) {
	if r := state.Roll; r != nil {
		return nil, r.InTheWay()
	}
	if err := state.Both(o.Wish); err != nil {
		return nil, err
	}
	payload, err := h.Tree(h.In(store.Payload))
	if err != nil {
		return nil, err
	}
	//guard: the payload of another pod is not installed
	if got := store.DigestOf(payload); got != o.Payload {
		return nil, errors.New("the files to install belong to another roll: another pod has replaced them")
	}
	f, err := h.gather(ctx, manifest.Folders(payload))
	if err == nil {
		err = f.judge()
	}
	if err != nil {
		return nil, err
	}
	wanted, err := h.wanted(payload, state, o)
	if err != nil {
		return nil, err
	}
	r := &manifest.Roll{Wish: o.Wish, Stage: manifest.Preparing}
	if err := h.planSection(r, state); err != nil {
		return nil, err
	}
	var kept []manifest.File
	if state.Kept != nil {
		kept = slices.DeleteFunc(slices.Clone(state.Kept.Files), func(f manifest.File) bool {
			return f.Path == kubeletconfig.OverridePath
		})
	}
	var readErr error
	present := func(name string) manifest.Present {
		was, err := h.Present(name)
		readErr = errors.Join(readErr, err)
		return was
	}
	var foreign []manifest.Foreign
	r.Changes, r.Files, foreign = manifest.Plan(wanted, kept, present, h.IsFolder)
	if readErr != nil {
		return nil, readErr
	}
	if len(foreign) > 0 {
		texts := make([]string, 0, len(foreign))
		for _, f := range foreign {
			texts = append(texts, f.Error())
		}
		return nil, outcome.Because(outcome.ForeignFile, "%s", strings.Join(texts, "\n"))
	}
	return r, nil
}

// wanted returns the files of a roll beside the section.
func (h *Host) wanted(payload []manifest.File, state manifest.State, o manifest.Order) ([]manifest.File, error) {
	wanted := slices.Clone(payload)
	if o.Settings != "" {
		is, err := h.Present(h.In(store.Settings))
		if err != nil {
			return nil, err
		}
		if is.SHA256 != o.Settings {
			return nil, errors.New("the settings belong to another roll: another pod has replaced them")
		}
		wanted = append(wanted, manifest.File{Path: settingsPath, Mode: 0o644, SHA256: o.Settings})
	} else if state.Kept != nil {
		// A roll without options leaves what an earlier one has written. Once that was edited, the
		// file is not ours any more.
		is, err := h.Present(settingsPath)
		if err != nil {
			return nil, err
		}
		for _, f := range state.Kept.Files {
			//guard: a roll without options of the monitor removes those of an earlier one
			//guard: a roll without options of the monitor refuses a node whose options were edited
			if f.Path == settingsPath && is.Is(f) {
				wanted = append(wanted, f)
			}
		}
	}
	dropIn, err := h.dropIn(state, o.NRI)
	if err == nil && dropIn != nil {
		wanted = append(wanted, dropIn.file())
	}
	return wanted, err
}

// errSection returns the error of a section in the installer's folder that is not the roll's.
func (h *Host) errSection(r *manifest.Roll) error {
	is, err := h.Present(h.In(store.Section))
	if err == nil && is.SHA256 != r.Section {
		err = errors.New("the section is not the one of this roll: another pod has replaced it")
	}
	return err
}

// planSection notes whether the section is a new one for the node.
func (h *Host) planSection(r *manifest.Roll, state manifest.State) error {
	if err := h.errSection(r); err != nil {
		return err
	}
	was, err := h.Present(kubeletconfig.OverridePath)
	if err != nil {
		return err
	}
	r.Tries = was.SHA256 != r.Section
	switch {
	case was.Kind != "":
		return outcome.Because(outcome.ForeignFile, "%s is %s; put a file there, or remove it", kubeletconfig.OverridePath, was.Kind)
	case !r.Tries || !was.Exists:
	case state.Kept == nil:
		return outcome.Because(outcome.ForeignFile, "%s: has another section than the roll; remove it, or leave the node out", kubeletconfig.OverridePath)
	case was.SHA256 != state.Kept.Section:
		return outcome.Because(outcome.ForeignFile, "%s: was changed after roll %s wrote it; put the change into the section of the roll, or leave the node out",
			kubeletconfig.OverridePath, state.Kept.Roll)
	}
	if h.Root.Exists(kubeletconfig.TrialPath) {
		return outcome.Because(outcome.Check, "a trial runs on this node: partition-monitor keep or partition-monitor try --end ends it")
	}
	return nil
}

// install puts the files of a roll in their places.
func (h *Host) install(ctx context.Context, o manifest.Order) (done, error) {
	state, err := h.State()
	if err != nil {
		return nil, err
	}
	r := state.Roll
	if r == nil || r.Roll != o.Roll || !r.Same(o.Wish) {
		if r, err = h.begin(ctx, &state, o); err != nil {
			return nil, err
		}
	}
	//guard: an install that is called again writes the files again
	if r.Stage.Reached(manifest.Installed) {
		return said("the files of version %s are in place", o.Version), nil
	}
	//guard: an install that hangs holds the lock beyond the deadline
	ctx, cancel, err := h.within(ctx, r, margin)
	if err != nil {
		return nil, err
	}
	defer cancel()
	if err := h.prepareWayBack(ctx, r); err != nil {
		return nil, fmt.Errorf("the way back: %w", err)
	}
	if err := h.put(ctx, r); err != nil {
		return nil, err
	}
	if err := h.useNew(ctx, r); err != nil {
		return nil, err
	}
	r.Stage = manifest.Installed
	if err := h.SetState(state); err != nil {
		return nil, err
	}
	sentences := said("version %s: %s; the node goes back in %s if the roll does not end before",
		o.Version, counted(len(r.Changes), "file was written or removed", "files were written or removed"), o.Trial)
	if r.Restarted != "" {
		sentences = append(sentences, r.Restarted+" was restarted: it serves NRI now")
	}
	return sentences, nil
}

func counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// begin plans a roll, and notes it before anything else of the node is changed.
func (h *Host) begin(ctx context.Context, state *manifest.State, o manifest.Order) (*manifest.Roll, error) {
	r, err := h.plan(ctx, *state, o)
	if err != nil {
		return nil, err
	}
	//guard: a folder that the installer cannot write is found at the first write
	if err := h.writable(r.Changes); err != nil {
		return nil, err
	}
	if r.Deadline, err = h.Now(); err != nil {
		return nil, err
	}
	r.Deadline.Since += o.Trial
	if r.Before, err = h.snapshot(ctx, pathsOf(r)); err != nil {
		return nil, err
	}
	if r.Ready, err = h.readyMembers(ctx, o); err != nil {
		h.Say("which members are Ready is not known: %v", err)
		r.ReadyUnknown = oneline.Terminal(err.Error())
	}
	if changesOf(r, dropInPaths()) {
		r.Restarted = serviceOf(o.NRI, state)
	}
	if err := h.RemoveTree(h.In(store.Backups)); err != nil {
		return nil, err
	}
	if err := h.Mkdir(h.In(store.Backups), 0o700); err != nil {
		return nil, err
	}
	for _, c := range r.Changes {
		if c.Backup == "" {
			continue
		}
		if err := h.Copy(c.Path, h.backup(c), c.Was.Mode); err != nil {
			return nil, err
		}
	}
	state.Roll = r
	return r, h.SetState(*state)
}

// writable reports a folder that this process cannot write, before anything is written. The sandbox
// leaves the host's own mounts as they are.
func (h *Host) writable(changes []manifest.Change) error {
	folders := make([]string, 0, 1+len(changes))
	folders = append(folders, unitFolder)
	for _, c := range changes {
		folder, _ := manifest.Folder(c.Path)
		folders = append(folders, folder)
	}
	slices.Sort(folders)
	for _, folder := range slices.Compact(folders) {
		switch readOnly, err := h.IsReadOnly(folder); {
		case readOnly:
			return outcome.Because(outcome.ReadOnlyUsr, "%s cannot be written: it is on a read-only file system; see docs/install.md for such hosts", folder)
		case err != nil:
			return fmt.Errorf("%s cannot be written: %w; lsattr -d %s shows whether it is immutable", folder, err, folder)
		}
	}
	return nil
}

func (h *Host) backup(c manifest.Change) string { return h.In(path.Join(store.Backups, c.Backup)) }

// source returns the file of the installer's folder whose content a change brings.
func (h *Host) source(c manifest.Change) string {
	if c.Path == settingsPath {
		return h.In(store.Settings)
	}
	return h.In(path.Join(store.Payload, c.Path))
}

// bring writes the file of a change, if its content is still the one that was planned.
func (h *Host) bring(c manifest.Change) error {
	if d := dropInOf(c.Path); d != nil {
		text := []byte(d.textFor(h))
		//guard: a drop-in for another version of containerd's configuration is installed
		if store.Digest(text) != c.SHA256 {
			return fmt.Errorf("%s was changed while the roll was under way: roll again", containerdConfig)
		}
		return h.WriteBytes(c.Path, text, c.Mode)
	}
	is, err := h.Present(h.source(c))
	if err != nil {
		return err
	}
	//guard: a file of another pod is installed when install is called again
	if is.SHA256 != c.SHA256 {
		return fmt.Errorf("%s belongs to another roll: another pod has replaced it", h.source(c))
	}
	return h.Copy(h.source(c), c.Path, c.Mode)
}

// put makes the changes of a roll. It may be interrupted, and called again.
func (h *Host) put(ctx context.Context, r *manifest.Roll) error {
	var written []string
	for _, c := range r.Changes {
		is, err := h.Present(c.Path)
		if err != nil {
			return err
		}
		switch {
		case c.Remove && !is.Exists || !c.Remove && is.Is(c.File):
		//guard: an install that is called again overwrites a file that was changed since
		case is.Exists && is != c.Was:
			err = outcome.Because(outcome.ForeignFile, "was changed while the roll was under way; put the change into another place, or leave the node out")
		case c.Remove:
			err = h.Remove(c.Path)
		default:
			if err = h.Mkdir(path.Dir(c.Path), 0o755); err != nil {
				break
			}
			err = h.bring(c)
		}
		switch {
		case errors.Is(err, unix.EROFS):
			return outcome.Because(outcome.ReadOnlyUsr, "%s: %w", c.Path, err)
		case err != nil:
			return fmt.Errorf("%s: %w", c.Path, err)
		}
		if !c.Remove {
			written = append(written, c.Path)
		}
	}
	return h.relabel(ctx, written)
}

// useNew makes systemd use the new files, as a package does after an upgrade.
func (h *Host) useNew(ctx context.Context, r *manifest.Roll) error {
	if len(r.Changes) == 0 {
		return nil
	}
	if _, err := h.systemctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	if _, err := h.systemctl(ctx, "try-restart", unitname.MonitorService); err != nil {
		return outcome.Because(outcome.Verify, "%s does not start with the new files: %w; journalctl -u %[1]s has the reason",
			unitname.MonitorService, err)
	}
	if r.Restarted != "" {
		if _, err := h.systemctl(ctx, "restart", r.Restarted); err != nil {
			return outcome.Because(outcome.Verify, "%s does not start with NRI: %w; journalctl -u %[1]s has the reason", r.Restarted, err)
		}
	}
	return nil
}

// changesOf reports whether a roll changes one of these files.
func changesOf(r *manifest.Roll, paths []string) bool {
	return slices.ContainsFunc(r.Changes, func(c manifest.Change) bool { return slices.Contains(paths, c.Path) })
}
