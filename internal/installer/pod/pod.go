// Package pod holds the part of the fleet installer that runs in a pod. It copies the program and
// the files to install to the host's folder, has the host's systemd run each stage there, and
// returns what the stage says. It changes nothing else.
package pod

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"nodepartition/internal/installer/manifest"
	"nodepartition/internal/installer/outcome"
	"nodepartition/internal/installer/sandbox"
	"nodepartition/internal/installer/store"
	"nodepartition/internal/systemd"
	"nodepartition/internal/trialend"
)

// Manager is the host's systemd.
type Manager interface {
	Version(ctx context.Context) (string, error)
	RunService(
		ctx context.Context, name string, properties []systemd.Property, atMost time.Duration,
	) (systemd.Ended, error)
}

// Pod is a pod with the installer's folder of a host.
type Pod struct {
	// Store is the installer's folder, at the path that it has in the pod.
	store.Store
	// Image is the tree of the image: the program, and the files to install below /payload.
	Image store.Disk
	// Systemd is the host's.
	Systemd Manager
	// Now returns the time by a clock that is never set, which is the host's, too.
	Now func() (trialend.Moment, error)
	// Confined reports whether a policy of SELinux is loaded on the host.
	Confined bool
	// UID is the user of this process.
	UID int
}

// Wish holds the options of the command line.
type Wish struct {
	Roll, Version, Node string
	// SectionFile is the path of the section in the pod.
	SectionFile string
	// MonitorArgs are the options of the monitor, nil for the settings as they are.
	MonitorArgs *string
	NRI         string
	Trial       time.Duration
}

// payload is the folder of the files to install, in the image.
const payload = "/payload"

// program is this program in the image.
const program = "/" + store.Program

var (
	// name is for what becomes a part of the name of a unit and of a file.
	name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,62}$`)
	// plainArgs has no character that systemd expands or splits in another way than at spaces.
	plainArgs = regexp.MustCompile(`^[A-Za-z0-9 ./:_,=@+\[\]-]*$`)
)

// Check returns what is wrong with the options of a stage, before anything is done. An
// uninstallation needs no section. No error has a value: it may be of a Secret, and the error
// becomes the termination message of the pod.
func (w Wish) Check(stage sandbox.Stage) error {
	switch {
	case !name.MatchString(w.Roll):
		return errors.New("--roll: want up to 63 letters, digits, dots and dashes")
	case w.Node == "":
		return errors.New("--node: want the name of the Node")
	case w.Version == "":
		return errors.New("--version: want the version that the image has")
	case w.SectionFile == "" && stage != sandbox.Uninstall:
		return errors.New("--section: want the file of the section")
	case w.Trial < time.Minute || w.Trial > 24*time.Hour:
		return errors.New("--trial: want from 1m to 24h")
	case w.MonitorArgs != nil && !plainArgs.MatchString(*w.MonitorArgs):
		return errors.New("--monitor-args: want options separated by spaces, without quotes, $ and %")
	}
	return nil
}

// settings returns the file of settings for options of the monitor.
func settings(args string) []byte {
	return []byte("# Written by partition-installer: the options are a value of the roll.\nPARTITION_MONITOR_ARGS=" + args + "\n")
}

// bound is the time that a stage may take on the host, with a margin over its unit's own bound.
const bound = 95 * time.Minute

// brought holds what a pod brings to the host.
type brought struct {
	order    manifest.Order
	section  []byte
	settings []byte // nil for none
	files    []manifest.File
}

func (p *Pod) bring(w Wish) (brought, error) {
	b := brought{order: manifest.Order{
		Wish: manifest.Wish{Roll: w.Roll, Version: w.Version, NRI: w.NRI}, Node: w.Node, Trial: w.Trial,
	}}
	var err error
	if w.SectionFile != "" {
		if b.section, err = os.ReadFile(w.SectionFile); err != nil {
			if at := new(fs.PathError); errors.As(err, &at) {
				err = at.Err // the path is a value
			}
			return b, fmt.Errorf("--section: %w", err)
		}
		b.order.Section = store.Digest(b.section)
	}
	if w.MonitorArgs != nil {
		b.settings = settings(*w.MonitorArgs)
		b.order.Settings = store.Digest(b.settings)
	}
	if b.files, err = p.Image.Tree(payload); err != nil {
		return b, fmt.Errorf("the files of the image: %w", err)
	}
	b.order.Payload = store.DigestOf(b.files)
	return b, nil
}

// Stage runs a stage of a roll.
func (p *Pod) Stage(ctx context.Context, stage sandbox.Stage, w Wish) outcome.Outcome {
	//guard: a pod that systemd would not obey does not wait for its answer
	if p.UID != 0 {
		return p.notBegun(stage, outcome.Because(outcome.NoBus,
			"this container runs as UID %d, and the host's systemd obeys UID 0 alone: set runAsUser: 0, and no runAsNonRoot, "+
				"in the securityContext of the Job's pod and of its containers. It needs no capability", p.UID))
	}
	b, err := p.bring(w)
	if err != nil {
		return p.notBegun(stage, err)
	}
	state, err := p.State()
	if err != nil {
		return p.notBegun(stage, err)
	}
	uninstall := stage == sandbox.Uninstall
	if !uninstall {
		if same, err := p.same(ctx, state, b); err != nil {
			return p.notBegun(stage, err)
		} else if same {
			return outcome.Outcome{Sentences: []string{fmt.Sprintf(
				"nothing to do: version %s and this section are kept on the node", w.Version,
			)}}
		}
	}
	if stage == sandbox.Preflight || uninstall {
		// Before anything is written to the host.
		if err := p.reach(ctx); err != nil {
			return outcome.Of(outcome.Refused, err)
		}
		if state, err = p.overdue(ctx, state, b); err != nil {
			return outcome.Of(outcome.Refused, err)
		}
	}
	//guard: a roll keeps other rolls away from its files
	if r := state.Roll; r != nil && r.Roll != w.Roll && !uninstall {
		return p.notBegun(stage, r.InTheWay())
	}
	if err := p.copy(ctx, stage, b, uninstall); err != nil {
		return p.cleared(ctx, p.notBegun(stage, err))
	}
	o := p.run(ctx, stage, b)
	if uninstall && o.Status == outcome.Done {
		if err := p.empty(ctx); err != nil {
			return outcome.Of(outcome.Remains, err, o.Sentences...)
		}
	}
	return p.cleared(ctx, o)
}

// same reports whether the node has what the roll brings. It writes nothing, neither here nor on
// the host.
func (p *Pod) same(ctx context.Context, state manifest.State, b brought) (bool, error) {
	if state.Roll != nil || state.Kept == nil || !state.Kept.Same(b.order.Wish) {
		return false, nil
	}
	ours, err := p.Image.Present(program)
	if err != nil {
		return false, err
	}
	if theirs, err := p.Present(p.In(store.Program)); err != nil || theirs.SHA256 != ours.SHA256 {
		return false, err
	}
	ended, err := p.Systemd.RunService(ctx, unit(sandbox.Same, b.order.Roll),
		sandbox.Properties(sandbox.Same, sandbox.Places{}, p.hostProgram(), "same"), bound)
	if err != nil {
		return false, outcome.Because(outcome.NoBus, "%w", err)
	}
	return ended.Result == "success", nil
}

// reach reports whether the host's systemd answers.
func (p *Pod) reach(ctx context.Context) error {
	if _, err := p.Systemd.Version(ctx); err != nil {
		return outcome.Because(outcome.NoBus,
			"the host's systemd does not answer on the system bus: %w; mount /run/dbus/system_bus_socket, and let no policy of AppArmor or SELinux keep the pod from it", err)
	}
	return nil
}

// overdue has the node go back from a roll whose time is over, and that is still under way: its own
// timer was stopped.
func (p *Pod) overdue(ctx context.Context, state manifest.State, b brought) (manifest.State, error) {
	r := state.Roll
	if r == nil || r.Stage == manifest.Uninstalling {
		return state, nil
	}
	now, err := p.Now()
	if err != nil || !r.Due(now) {
		return state, err
	}
	if err := p.copy(ctx, sandbox.Preflight, b, true); err != nil {
		return state, err
	}
	if err := p.back(ctx, r, b.order.Roll); err != nil {
		return state, err
	}
	return p.State()
}

// back has the host go back at once.
func (p *Pod) back(ctx context.Context, r *manifest.Roll, by string) error {
	files := make([]manifest.File, 0, len(r.Changes))
	for _, c := range r.Changes {
		files = append(files, c.File)
	}
	places := sandbox.Places{Folder: store.Folder, Files: manifest.Folders(files)}
	ended, err := p.Systemd.RunService(ctx, unit(sandbox.Back, by),
		sandbox.Properties(sandbox.Back, places, p.hostProgram(), "back", "--now"), bound)
	if err == nil && ended.Result != "success" {
		err = fmt.Errorf("the way back ended with %s (%d); journalctl -u %s on the node has the reason", ended.Result, ended.Status, unit(sandbox.Back, by))
	}
	return err
}

// unit returns the name of the service of a stage.
func unit(stage sandbox.Stage, roll string) string {
	return "partition-install-" + string(stage) + "-" + roll + ".service"
}

// hostProgram returns the path of the program on the host.
func (p *Pod) hostProgram() string { return path.Join(store.Folder, store.Program) }

// copy brings the program to the host's folder, and with it what a roll needs. What is there
// already is not written. A stage of a roll that is under way waits for the lock: at the deadline
// the way back has it.
func (p *Pod) copy(ctx context.Context, stage sandbox.Stage, b brought, programOnly bool) error {
	//guard: a pod of a roll waits for the way back
	unlock, err := p.Lock(ctx, stage.Follows())
	if err != nil {
		return err
	}
	defer unlock()
	if err := p.copyFile(program, store.Program, 0o755); err != nil {
		return err
	}
	if err := p.label(); err != nil {
		return err
	}
	if programOnly {
		return nil
	}
	if err := p.copyPayload(b.files); err != nil {
		return err
	}
	if err := p.bytes(store.Section, b.section); err != nil {
		return err
	}
	if b.settings != nil {
		return p.bytes(store.Settings, b.settings)
	}
	return p.Remove(p.In(store.Settings))
}

func (p *Pod) copyPayload(files []manifest.File) error {
	has, err := p.Tree(p.In(store.Payload))
	if err == nil && store.DigestOf(has) == store.DigestOf(files) {
		return nil
	}
	if err := p.RemoveTree(p.In(store.Payload)); err != nil {
		return err
	}
	for _, f := range files {
		to := path.Join(store.Payload, f.Path)
		if err := p.Mkdir(p.In(path.Dir(to)), 0o755); err != nil {
			return err
		}
		if err := p.copyFile(path.Join(payload, f.Path), to, f.Mode); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a file of the image, unless the host has it.
func (p *Pod) copyFile(from, to string, mode os.FileMode) error {
	ours, err := p.Image.Present(from)
	if err != nil {
		return err
	}
	if !ours.Exists || ours.Kind != "" {
		return fmt.Errorf("%s: not a file of the image", from)
	}
	theirs, err := p.Present(p.In(to))
	if err != nil {
		return err
	}
	if theirs.Is(manifest.File{Path: to, Mode: mode, SHA256: ours.SHA256}) {
		return nil
	}
	path, err := p.Image.Root.Path(from)
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return p.Write(p.In(to), file, mode)
}

func (p *Pod) bytes(name string, data []byte) error {
	is, err := p.Present(p.In(name))
	if err != nil || is.Is(manifest.File{Mode: 0o644, SHA256: store.Digest(data)}) {
		return err
	}
	return p.WriteBytes(p.In(name), data, 0o644)
}

// The attribute of SELinux' labels, and the label of programs that services of the host run. A file
// that a container has made has the container's label, or the folder's.
const (
	labelAttribute = "security.selinux"
	programLabel   = "system_u:object_r:bin_t:s0"
)

// label gives the program the label by which the host's systemd may execute it. Where the policy
// does not let the pod, systemd's answer says so.
func (p *Pod) label() error {
	if !p.Confined {
		return nil
	}
	path, err := p.Root.Path(p.In(store.Program))
	if err != nil {
		return err
	}
	has := make([]byte, 256)
	n, err := unix.Lgetxattr(path, labelAttribute, has)
	if err == nil && strings.TrimRight(string(has[:n]), "\x00") == programLabel {
		return nil
	}
	_ = unix.Lsetxattr(path, labelAttribute, []byte(programLabel+"\x00"), 0)
	return nil
}

// run has the host run a stage, and returns what it says.
func (p *Pod) run(ctx context.Context, stage sandbox.Stage, b brought) outcome.Outcome {
	request, result := store.Request(string(stage), b.order.Roll), store.Result(string(stage), b.order.Roll)
	//guard: the result of an earlier pod is the one of a stage that says nothing
	if err := p.Remove(p.In(result)); err != nil { // of an earlier pod
		return p.notBegun(stage, err)
	}
	if err := p.WriteJSON(request, b.order); err != nil {
		return p.notBegun(stage, err)
	}
	state, err := p.State()
	if err != nil {
		return p.notBegun(stage, err)
	}
	properties := sandbox.Properties(stage, p.places(state, b), p.hostProgram(), "host", string(stage), b.order.Roll)
	ended, err := p.Systemd.RunService(ctx, unit(stage, b.order.Roll), properties, bound)
	if err != nil {
		return p.unknown(stage, b.order.Roll, fmt.Errorf("what the stage has done is not known: %w", err))
	}
	var o outcome.Outcome
	if err := p.ReadJSON(result, &o); err != nil {
		return p.died(ctx, stage, b, ended)
	}
	for _, name := range []string{request, result} {
		if err := p.Remove(p.In(name)); err != nil {
			return outcome.Of(outcome.Remains, err, o.Sentences...)
		}
	}
	return o
}

// places returns the folders that a stage may write on this node.
func (p *Pod) places(state manifest.State, b brought) sandbox.Places {
	files := slices.Clone(b.files)
	if state.Kept != nil {
		files = append(files, state.Kept.Files...)
	}
	if state.Roll != nil {
		for _, c := range state.Roll.Changes {
			files = append(files, c.File)
		}
	}
	folders := manifest.Folders(files)
	if b.settings != nil {
		folders = append(folders, "/etc/default")
	}
	switch b.order.NRI {
	case "containerd":
		folders = append(folders, "/etc/containerd/conf.d")
	case "crio":
		folders = append(folders, "/etc/crio/crio.conf.d")
	}
	return sandbox.Places{Folder: store.Folder, Files: folders}
}

// The exit statuses by which systemd says that it could not run a program (systemd.exec(5)).
const (
	exitExec      = 203
	exitNamespace = 226
)

// died returns the outcome of a stage that has ended without a word.
func (p *Pod) died(ctx context.Context, stage sandbox.Stage, b brought, ended systemd.Ended) outcome.Outcome {
	cause := fmt.Errorf("the stage ended with %s (%d) and said nothing; journalctl -u %s on the node has the reason", ended.Result, ended.Status, unit(stage, b.order.Roll))
	switch {
	case ended.Status == exitExec && p.Confined:
		cause = outcome.Because(outcome.SELinux, "systemd may not execute %s: the policy of SELinux does not let it; label the folder bin_t, or install the package", p.hostProgram())
	case ended.Status == exitExec:
		cause = fmt.Errorf("systemd could not execute %s: is the file system of %s mounted noexec?", p.hostProgram(), store.Folder)
	case ended.Status == exitNamespace:
		cause = fmt.Errorf("systemd could not make the sandbox of the stage; journalctl -u %s on the node has the reason", unit(stage, b.order.Roll))
	case ended.Result == "timeout":
		cause = outcome.Because(outcome.Timeout, "the stage did not end in its time; journalctl -u %s on the node has its last words", unit(stage, b.order.Roll))
	}
	state, err := p.State()
	if err != nil {
		return outcome.Of(outcome.Remains, errors.Join(cause, err))
	}
	if state.Roll == nil || state.Roll.Roll != b.order.Roll {
		return p.ended(state, stage, b.order.Roll, cause)
	}
	//guard: an uninstallation that dies starts a way back
	if stage == sandbox.Uninstall {
		return outcome.Of(outcome.Remains, cause, "the uninstallation has not ended: run it again")
	}
	if err := p.back(ctx, state.Roll, b.order.Roll); err != nil {
		return p.unknown(stage, b.order.Roll, errors.Join(cause, err))
	}
	if state, err = p.State(); err != nil {
		return outcome.Of(outcome.Remains, errors.Join(cause, err))
	}
	return p.ended(state, stage, b.order.Roll, cause)
}

// ended returns the outcome of a stage that has failed, when the roll is not under way.
func (p *Pod) ended(state manifest.State, stage sandbox.Stage, roll string, cause error) outcome.Outcome {
	last := state.Last
	switch {
	//guard: a keep that dies after its roll was kept has failed
	case state.Kept != nil && state.Kept.Roll == roll:
		return outcome.Outcome{Sentences: []string{"the roll is kept", cause.Error()}}
	case last != nil && last.Roll == roll && len(last.Remains) > 0:
		return outcome.Of(outcome.Remains, cause, append([]string{"the node went back, and is not as before:"}, last.Remains...)...)
	case last != nil && last.Roll == roll:
		return outcome.Of(outcome.WentBack, cause, "the node went back, and is as before: files, units and cgroups were compared")
	case stage == sandbox.Preflight || stage == sandbox.Install:
		return outcome.Of(outcome.Refused, cause)
	//guard: an uninstallation that dies before it has begun says that the node is as before
	case stage == sandbox.Uninstall:
		return outcome.Of(outcome.Remains, cause)
	}
	return outcome.Of(outcome.WentBack, cause)
}

// unknown returns the outcome of a stage whose end this pod has not seen.
func (p *Pod) unknown(stage sandbox.Stage, roll string, cause error) outcome.Outcome {
	state, err := p.State()
	if err == nil && (state.Roll == nil || state.Roll.Roll != roll) && stage == sandbox.Preflight {
		return outcome.Of(outcome.Refused, outcome.Because(outcome.NoBus, "%w", cause))
	}
	return outcome.Of(outcome.Remains, errors.Join(cause, err),
		"the stage may run on: until the roll is kept, the node goes back by itself at its deadline, or at its next boot")
}

// notBegun returns the outcome of a stage that could not begin.
func (p *Pod) notBegun(stage sandbox.Stage, err error) outcome.Outcome {
	if stage.Follows() {
		return p.unknown(stage, "", err)
	}
	return outcome.Of(outcome.Refused, err)
}

// cleared removes what a roll that has failed has brought to the folder, unless a roll uses it.
func (p *Pod) cleared(ctx context.Context, o outcome.Outcome) outcome.Outcome {
	if o.Status == outcome.Done {
		return o
	}
	unlock, err := p.Lock(ctx, false)
	if err != nil {
		//guard: a stage that has failed removes the files of another pod
		return o // somebody uses it
	}
	defer unlock()
	state, err := p.State()
	//guard: a stage that has failed removes the files of a roll that is under way
	if err != nil || state.Roll != nil {
		return o
	}
	err = errors.Join(
		//guard: a roll that is refused leaves copies of what it would replace
		p.RemoveTree(p.In(store.Payload)), p.RemoveTree(p.In(store.Backups)),
		p.Remove(p.In(store.Section)), p.Remove(p.In(store.Settings)), p.RemoveMessages(),
	)
	//guard: a refusal removes the program from a node that has kept a roll
	if state.Kept == nil && o.Status == outcome.Refused {
		err = errors.Join(err, p.Remove(p.In(store.Program)))
	}
	if err != nil {
		o.Sentences = append(o.Sentences, fmt.Sprintf("the installer's folder could not be emptied: %v", err))
	}
	return o
}

// empty removes all that is in the folder, unless a roll has begun since the uninstallation: the
// way back needs its state and its backups.
func (p *Pod) empty(ctx context.Context) error {
	unlock, err := p.Lock(ctx, false)
	if err != nil {
		//guard: an uninstallation's pod empties the folder while another copies its files there
		return nil // another pod uses it
	}
	defer unlock()
	state, err := p.State()
	//guard: the pod of an uninstallation removes the state of a roll that has begun since
	if err != nil || state.Roll != nil || state.Kept != nil {
		return err
	}
	return p.Empty()
}
