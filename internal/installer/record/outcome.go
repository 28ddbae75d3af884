package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"node-partition.io/node-partition/internal/text"
)

// This file holds the result of a call of the installer: an exit status, a reason of one
// word, and sentences for people. It is plain data.

// Reason is a word for a label of the Node. The words never change.
type Reason string

// The reasons. All but the first are those of a call that has not ended well.
const (
	// Unchanged is a node on which there was nothing to do.
	Unchanged Reason = "unchanged"
	// CgroupV1 is a node without the unified hierarchy of cgroups.
	CgroupV1 Reason = "cgroup-v1"
	// Cgroupfs is a kubelet or a runtime with another cgroup driver than systemd.
	Cgroupfs Reason = "cgroupfs"
	// ForeignFile is a file at a path of ours that this installer has not written.
	ForeignFile Reason = "foreign-file"
	// ReadOnlyUsr is a file system of the programs that cannot be written.
	ReadOnlyUsr Reason = "read-only-usr"
	// SELinux is an enforcing policy under which systemd would not run the files.
	SELinux Reason = "selinux"
	// NoBus is a host whose systemd cannot be reached over the system bus, or would not obey.
	NoBus Reason = "no-bus"
	// KubeletGate is a kubelet that makes the partition itself.
	KubeletGate Reason = "kubelet-gate"
	// Check is an error that partition-monitor check has found.
	Check Reason = "check"
	// Section is a section that the generator would refuse.
	Section Reason = "section"
	// Verify is a node that is not well with the section in force.
	Verify Reason = "verify"
	// Timeout is a change whose time was over, or whose caller was gone.
	Timeout Reason = "timeout"
	// Failed is everything else.
	Failed Reason = "error"
)

// Status is the exit status of a call.
type Status int

// The exit statuses.
const (
	// Done means that the call has done its work, or had none.
	Done Status = iota
	// WentBack means that the change has failed, and the node is as before.
	WentBack
	// Usage is a wrong command line.
	Usage
	// Refused means that the change was refused before anything was written.
	Refused
	// Remains means that the change has failed, and the node is not as before.
	Remains
)

// Outcome is the result of a call. Its JSON goes from the host to the caller.
type Outcome struct {
	Status Status `json:"status"`
	// Reason is Unchanged or empty if Status is Done.
	Reason Reason `json:"reason,omitempty"`
	// Sentences begins with the most important one.
	Sentences []string `json:"sentences,omitempty"`
}

// Text returns the sentences, one a line. The first line begins with the reason.
func (o Outcome) Text() string {
	word := string(o.Reason)
	if word == "" {
		word = "done"
	}
	lines := make([]string, 0, len(o.Sentences))
	for _, s := range o.Sentences {
		lines = append(lines, text.Terminal(s))
	}
	return word + ": " + strings.Join(lines, "\n")
}

// maxMessage bounds the message of a termination, in bytes: with six for each, which JSON may need,
// it fits 4,096 (MaxContainerTerminationMessageLength of pkg/kubelet/container, v1.37.0).
const maxMessage = 600

// AsBefore is the sentence of a change that WentBack.
const AsBefore = "the node went back, and is as before: files, units and cgroups were compared"

// Termination is the termination message of a call, as JSON (rollout/README.md). The exit status
// has the rest.
type Termination struct {
	// Message is for people.
	Message string `json:"message"`
	// Reason is a word for a label.
	Reason Reason `json:"reason"`
}

// Termination returns the JSON for /dev/termination-log.
func (o Outcome) Termination() string {
	data, err := json.Marshal(Termination{
		Message: text.Record(text.Terminal(strings.Join(o.Sentences, "\n")), maxMessage), Reason: o.Reason,
	})
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// because is an error with the reason for a label.
type because struct {
	reason Reason
	err    error
}

func (b *because) Error() string { return b.err.Error() }
func (b *because) Unwrap() error { return b.err }

// Because gives an error a reason. format is as for fmt.Errorf.
func Because(reason Reason, format string, args ...any) error {
	return &because{reason, fmt.Errorf(format, args...)}
}

// ReasonOf returns the reason of an error, Failed for one without.
func ReasonOf(err error) Reason {
	var b *because
	if errors.As(err, &b) {
		return b.reason
	}
	return Failed
}

// OutcomeOf returns the outcome of an error.
func OutcomeOf(status Status, err error, more ...string) Outcome {
	return Outcome{Status: status, Reason: ReasonOf(err), Sentences: append([]string{err.Error()}, more...)}
}
