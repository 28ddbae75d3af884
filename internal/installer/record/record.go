package record

import (
	"fmt"
	"io/fs"
	"time"

	"node-partition.io/node-partition/internal/trialend"
)

// Format is the version of the state file.
const Format = 2

// State holds what the installer knows of a node. It is one file, which is replaced as a whole.
type State struct {
	Format int `json:"version"`
	// Kept is the installation that stays; nil without one.
	Kept *Kept `json:"kept,omitempty"`
	// Rollout is the change that has not ended; nil without one.
	Rollout *Rollout `json:"roll,omitempty"`
	// Before is the node before the last change, if that went back and not all was as before; else
	// nil.
	Before *Snapshot `json:"before,omitempty"`
}

// Action is what the installer is asked for.
type Action string

// The actions.
const (
	Apply  Action = "apply"
	Survey Action = "survey"
	Remove Action = "remove"
)

// MinTrial and MaxTrial bound a trial. Life is the time that a call may take on the host: a trial,
// and the pods of a partition that take long to leave it.
const (
	MinTrial = time.Minute
	MaxTrial = time.Hour
	Life     = MaxTrial + 30*time.Minute
)

// CheckTrial returns an error for the length of a trial that is out of these bounds.
func CheckTrial(d time.Duration) error {
	if d < MinTrial || d > MaxTrial {
		return fmt.Errorf("want from %s to %s", MinTrial, MaxTrial)
	}
	return nil
}

// MonitorArg is the form of an option in Order.MonitorArgs, as a regular expression. It has no
// character that systemd, CEL or a shell expands, and none at which systemd splits.
const MonitorArg = `--[a-z][a-z0-9.-]*(=[A-Za-z0-9./:_,=@+\[\]-]*)?`

// MonitorArgs is the form of Order.MonitorArgs.
const MonitorArgs = `(` + MonitorArg + `( ` + MonitorArg + `)*)?`

// Order describes what the host is asked for.
type Order struct {
	Action Action `json:"action"`
	// Node is the name of the Node in the cluster.
	Node string `json:"node,omitempty"`
	// Section is the text of node-partition.yaml.
	Section string `json:"section,omitempty"`
	// MonitorArgs has the options of the monitor, with a space between two of them.
	MonitorArgs string `json:"monitorArgs,omitempty"`
	// Trial is the time from the first change to the rollback.
	Trial time.Duration `json:"trial,omitempty"`
}

// Kept is an installation that stays.
type Kept struct {
	// By is the ID of the call that has made it.
	By string `json:"by"`
	// Version is the version of the programs.
	Version string `json:"program"`
	// Section is the SHA-256 of the section's file.
	Section string `json:"section"`
	// Found means that somebody else has written that file.
	Found bool `json:"found,omitempty"`
}

// Rollout is a change of a node that has not ended.
type Rollout struct {
	// Kept is the installation once the rollout is kept.
	Kept
	// From is the folder of the version that the node had, empty for none, and To of the new one.
	From string `json:"from,omitempty"`
	To   string `json:"to"`
	// Tries means that the section is a new one, which is tried.
	Tries bool `json:"tries,omitempty"`
	// Keeping means that the section may have been made permanent.
	Keeping bool `json:"keeping,omitempty"`
	// Deadline is the time at which the node goes back, by a clock that is never set.
	Deadline trialend.Moment `json:"deadline"`
	// Failed means that the node goes back before the deadline.
	Failed bool `json:"failed,omitempty"`
	// Before is the node before the rollout.
	Before Snapshot `json:"before"`
	// Ready lists the UIDs of the members of the section that were Ready before.
	Ready []string `json:"ready,omitempty"`
	// ReadyUnknown is why it is not known which members were Ready; empty if it is.
	ReadyUnknown string `json:"readyUnknown,omitempty"`
}

// Due reports whether a rollout has to go back at a time.
func (r *Rollout) Due(now trialend.Moment) bool {
	return r.Failed || r.Deadline.Over(now)
}

// Present is a path on the node. Its zero value is a path where nothing is.
type Present struct {
	// Exists is true for anything at the path.
	Exists bool `json:"exists,omitempty"`
	// Kind is empty for a regular file, else what is there in words.
	Kind string `json:"kind,omitempty"`
	// Link is the target of a symbolic link.
	Link string `json:"link,omitempty"`
	// Mode and SHA256 describe a regular file.
	Mode   fs.FileMode `json:"mode,omitempty"`
	SHA256 string      `json:"sha256,omitempty"`
}
