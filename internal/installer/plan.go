package installer

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/internal/kubeletconfig"
)

// plan is what a call would change.
type plan struct {
	layout  layout
	content content
	missing []link
	kept    bool // what is there is kept
	begun   time.Time
	record.Rollout
}

// nothing reports whether the node has it all.
func (p *plan) nothing() bool { return p.kept && p.From == p.To && len(p.missing) == 0 && !p.Tries }

// plan returns what an order changes, or why the node cannot have it. It writes nothing.
func (h *Host) plan(ctx context.Context, state record.State, id string, o record.Order) (*plan, error) {
	if state.Rollout != nil || h.isOurOff() {
		return nil, errors.New("another call has not ended on this node, or was killed: wait until the node has gone back")
	}
	if err := h.unfit(ctx); err != nil {
		return nil, err
	}
	readOnly, err := h.readOnly(ctx)
	if err != nil {
		return nil, err
	}
	p := &plan{kept: state.Kept != nil, begun: time.Now()}
	p.By, p.Version, p.Section = id, h.Version, Digest([]byte(o.Section))
	if p.layout, err = h.layout(readOnly); err != nil {
		return nil, err
	}
	if p.content, err = h.content(p.layout, o.MonitorArgs); err != nil {
		return nil, err
	}
	p.To = p.content.folder
	if p.From, err = h.version(p.layout); err != nil {
		return nil, err
	}
	if p.missing, err = h.missing(p.layout); err != nil {
		return nil, err
	}
	if p.From == p.To {
		name, err := h.changed(p.layout, p.content)
		if err != nil {
			return nil, err
		}
		//guard: a file of ours that was changed since counts as ours
		if name != "" {
			return nil, record.Because(record.ForeignFile, "%s: was changed after this installer wrote it; run partition-installer remove first", name)
		}
	}
	return p, h.planSection(p, state)
}

// planSection notes whether the section is a new one for the node.
func (h *Host) planSection(p *plan, state record.State) error {
	was, err := h.Present(kubeletconfig.OverridePath)
	if err != nil {
		return err
	}
	p.Tries = was.SHA256 != p.Section
	p.Found = !p.Tries && (state.Kept == nil || state.Kept.Found || state.Kept.Section != p.Section)
	switch {
	case was.Kind != "":
		return record.Because(record.ForeignFile, "%s is %s; put a file there, or remove it", kubeletconfig.OverridePath, was.Kind)
	case !p.Tries || !was.Exists:
	case state.Kept == nil:
		return record.Because(record.ForeignFile, "%s: has another section; remove it, or leave the node out", kubeletconfig.OverridePath)
	case was.SHA256 != state.Kept.Section:
		return record.Because(record.ForeignFile, "%s: was changed after this installer wrote it; put the change into the section, or leave the node out",
			kubeletconfig.OverridePath)
	}
	if h.Root.Exists(kubeletconfig.TrialPath) {
		return record.Because(record.Check, "a trial runs on this node: partition-monitor keep or partition-monitor try --end ends it")
	}
	return nil
}

// judge has the new monitor judge the section and the node. It writes to the installer's folder
// alone.
func (h *Host) judge(ctx context.Context, p *plan, o record.Order) error {
	if err := h.WriteBytes(h.In(Monitor), p.content.files[monitorFile], 0o755); err != nil {
		return err
	}
	if err := h.WriteBytes(h.In(Section), []byte(o.Section), 0o644); err != nil {
		return err
	}
	monitor := h.onDisk(h.In(Monitor))
	if err := h.label(ctx, h.In(Monitor)); err != nil {
		return err
	}
	if err := h.judgeOptions(ctx, monitor, strings.Fields(o.MonitorArgs)); err != nil {
		return record.Because(record.Section, "monitorArgs: %w", err)
	}
	v, err := h.validate(ctx, monitor)
	if err == nil {
		err = h.errorOfSection(v)
	}
	if err != nil {
		return err
	}
	found, err := h.check(ctx, monitor)
	if err == nil {
		err = errorOf(found)
	}
	if err != nil || o.Action == record.Survey {
		return err
	}
	return h.writable(p.layout)
}

// judgeOptions has the parser of the new monitor judge options. With --help before them it starts
// nothing. Behind them it may be the value of an option, and a later --help=false takes it back.
func (h *Host) judgeOptions(ctx context.Context, monitor string, options []string) error {
	for _, option := range options {
		if name, _, _ := strings.Cut(option, "="); name == "--help" || name == "--h" {
			return fmt.Errorf("%s: no option of a service", option)
		}
	}
	_, err := h.Programs.Run(ctx, monitor, append([]string{"run", "--help"}, options...)...)
	return err
}

// writable reports a folder that this process cannot write, before anything is written. The sandbox
// leaves the host's own mounts as they are.
func (h *Host) writable(l layout) error {
	folders := append(make([]string, 0, 2+len(l.links)), unitFolder, path.Dir(l.base))
	for _, k := range l.links {
		folders = append(folders, path.Dir(k.path))
	}
	for _, folder := range folders {
		if !h.IsFolder(folder) {
			continue // it is made, or not needed
		}
		switch err := unix.Access(h.onDisk(folder), unix.W_OK); {
		case errors.Is(err, unix.EROFS):
			return record.Because(record.ReadOnlyUsr, "%s cannot be written: it is on a read-only file system; see docs/support.md for such hosts", folder)
		case err != nil:
			return fmt.Errorf("%s cannot be written: %w; lsattr -d %s shows whether it is immutable", folder, err, folder)
		}
	}
	return nil
}
