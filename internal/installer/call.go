package installer

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/internal/installer/sandbox"
	"node-partition.io/node-partition/internal/systemd"
)

// This file has the host's systemd run the installer, in a pod of the node and on the node
// itself. It brings the program to the installer's folder, starts a service, and returns what that
// says. It changes nothing else.

// Manager is the host's systemd.
type Manager interface {
	Version(ctx context.Context) (string, error)
	RunService(
		ctx context.Context, name string, properties []systemd.Property, atMost time.Duration,
	) (systemd.Ended, error)
}

// Call is one call of the installer.
type Call struct {
	// Store is the installer's folder, at the path that it has for this process.
	Store
	// ID is unlike that of each other call.
	ID string
	// Program is the path of this program.
	Program string
	// Systemd is the host's.
	Systemd Manager
	// Confined reports whether a policy of SELinux is loaded on the host.
	Confined bool
	// UID is the user of this process.
	UID int
	// Say notes progress for who waits.
	Say func(format string, args ...any)
}

// bound is the time that a call may take, with a margin over its unit's own bound.
const bound = record.Life + 5*time.Minute

// Do has the host do what is ordered.
func (c *Call) Do(ctx context.Context, o record.Order) record.Outcome {
	//guard: a caller that systemd would not obey does not wait for its answer
	if c.UID != 0 {
		return record.OutcomeOf(record.Refused, record.Because(record.NoBus,
			"this runs as UID %d, and the host's systemd obeys UID 0 alone: run it as root, and in a pod with runAsUser: 0. It needs no capability", c.UID))
	}
	// Before anything is written to the host.
	if _, err := c.Systemd.Version(ctx); err != nil {
		return record.OutcomeOf(record.Refused, record.Because(record.NoBus,
			"the host's systemd does not answer on the system bus: %w; a pod mounts /run/dbus, and no policy of AppArmor or SELinux may keep it from there", err))
	}
	message, err := c.bring(ctx, o)
	if err != nil {
		return record.OutcomeOf(record.Refused, err)
	}
	defer message.Close()
	atMost := record.Life
	if o.Action == record.Apply {
		atMost = o.Trial
	}
	c.Say("the node does it, for %s at most: journalctl -f -u %s there has its steps", atMost, c.unit(""))
	ended, err := c.Systemd.RunService(ctx, c.unit(""), sandbox.Properties(o.Action == record.Survey, c.hostProgram(), "host", c.ID), bound)
	//guard: the message of a service that could not start is left
	if forgetErr := c.Forget(c.ID); forgetErr != nil {
		err = errors.Join(err, forgetErr)
	}
	if err != nil {
		return record.OutcomeOf(record.Remains, fmt.Errorf("what was done is not known: %w", err),
			"the node goes back by itself when this call is gone, at the end of the trial, or at its next boot")
	}
	if answer := message.Answer(); answer != nil {
		return *answer
	}
	return c.died(ctx, o, ended)
}

// unit returns the name of the service of this call.
func (c *Call) unit(suffix string) string { return "partition-install-" + c.ID + suffix + ".service" }

// hostProgram returns the path of the program on the host.
func (c *Call) hostProgram() string { return path.Join(sandbox.Folder, Program) }

// bring copies this program to the installer's folder, unless it is there, and makes the message.
// Another call that ends takes neither away: they come under one lock. It waits while another call
// works on the node.
func (c *Call) bring(ctx context.Context, o record.Order) (Message, error) {
	if err := c.Mkdir(c.Folder, 0o700); err != nil {
		return Message{}, err
	}
	unlock, err := c.Lock(ctx)
	if err != nil {
		return Message{}, err
	}
	defer unlock()
	if err := c.Copy(c.Program, c.In(Program)); err != nil {
		return Message{}, err
	}
	c.label()
	return c.Ask(c.ID, o)
}

// The attribute of SELinux' labels, and the label of programs that services of the host run. A file
// that a container has made has the container's label, or the folder's.
const (
	labelAttribute = "security.selinux"
	programLabel   = "system_u:object_r:bin_t:s0"
)

// label gives the program the label by which the host's systemd may execute it. Where the policy
// does not let it, systemd's answer says so.
func (c *Call) label() {
	path, err := c.Root.Path(c.In(Program))
	if err != nil || !c.Confined {
		return
	}
	if has, err := ReadLabel(path); err == nil && has == programLabel {
		return
	}
	_ = unix.Lsetxattr(path, labelAttribute, []byte(programLabel+"\x00"), 0)
}

// The exit statuses by which systemd says that it could not run a program (systemd.exec(5)).
const (
	exitExec      = 203
	exitNamespace = 226
)

// died returns the outcome of a service that has ended without a word. A change that it has begun
// goes back.
func (c *Call) died(ctx context.Context, o record.Order, ended systemd.Ended) record.Outcome {
	see := "journalctl -u " + c.unit("") + " on the node has the reason"
	cause := fmt.Errorf("the service ended with %s (%d) without a message; %s", ended.Result, ended.Status, see)
	switch {
	case ended.Status == exitExec && c.Confined:
		cause = record.Because(record.SELinux, "systemd may not execute %s: the policy of SELinux does not let it; label the folder bin_t, or install the package", c.hostProgram())
	case ended.Status == exitExec:
		cause = fmt.Errorf("systemd could not execute %s: is its file system mounted noexec?", c.hostProgram())
	case ended.Status == exitNamespace:
		cause = fmt.Errorf("systemd could not make the sandbox of the service; %s", see)
	case ended.Result == "timeout":
		cause = record.Because(record.Timeout, "the service did not end in its time; %s", see)
	}
	switch {
	case o.Action == record.Survey || ended.Status == exitExec || ended.Status == exitNamespace:
		return record.OutcomeOf(record.Refused, cause)
	//guard: a removal that dies says that the node is as before
	case o.Action == record.Remove:
		return record.OutcomeOf(record.Remains, cause, "the removal has not ended: run it again")
	}
	back, err := c.Systemd.RunService(ctx, c.unit("-back"), sandbox.Properties(false, c.hostProgram(), "back", "--now"), bound)
	if err == nil && back.Result != "success" {
		err = fmt.Errorf("the node is not as before; journalctl -u %s on the node says what remains", c.unit("-back"))
	}
	state, stateErr := c.State()
	switch {
	case err != nil || stateErr != nil:
		return record.OutcomeOf(record.Remains, errors.Join(cause, err, stateErr))
	//guard: a call that dies after its change was kept has failed
	case state.Kept != nil && state.Kept.By == c.ID:
		return record.Outcome{Sentences: []string{"kept", cause.Error()}}
	}
	return record.OutcomeOf(record.WentBack, cause, record.AsBefore)
}
