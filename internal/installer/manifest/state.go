package manifest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"nodepartition/internal/trialend"
)

// Format is the version of the state file.
const Format = 1

// State holds what the installer knows of a node. It is one file, which is replaced as a whole.
type State struct {
	Format int `json:"version"`
	// Kept is the installation that stays; nil without one.
	Kept *Kept `json:"kept,omitempty"`
	// Roll is the one that has not ended; nil without one.
	Roll *Roll `json:"roll,omitempty"`
	// Last is the last roll that went back; nil if none did since the last one was kept.
	Last *Ended `json:"last,omitempty"`
}

// Wish describes what a roll is to bring to a node.
type Wish struct {
	// Roll is the ID of the roll.
	Roll string `json:"roll"`
	// Version is the version of the programs.
	Version string `json:"program"`
	// Section is the SHA-256 of the section's file.
	Section string `json:"section"`
	// Settings is the SHA-256 of the file of settings, empty if the roll has none.
	Settings string `json:"settings,omitempty"`
	// NRI is the runtime whose NRI the roll switches on: containerd, crio, or empty.
	NRI string `json:"nri,omitempty"`
}

// Same reports whether two rolls bring the same.
func (w Wish) Same(other Wish) bool {
	w.Roll, other.Roll = "", ""
	return w == other
}

// Order describes what a pod asks the host for.
type Order struct {
	Wish
	// Node is the name of the Node in the cluster.
	Node string `json:"node"`
	// Trial is the time from the installation to the way back.
	Trial time.Duration `json:"trial"`
	// Payload is the digest of the files to install, by which the host sees that no other pod has
	// replaced them.
	Payload string `json:"payload"`
}

// Kept is an installation that stays.
type Kept struct {
	Wish
	// Files lists the files of ours, with the settings, the drop-in for NRI and the section.
	Files []File `json:"files"`
}

// Stage is a step of a roll that has been done.
type Stage string

// The stages in their order.
const (
	// Preparing means that files may have been written. The way back is in place before that.
	Preparing Stage = "preparing"
	// Installed means that all files are in place.
	Installed Stage = "installed"
	// Applied means that the section is in force, for a time if it is a new one.
	Applied Stage = "applied"
	// Verified means that the node is well with it.
	Verified Stage = "verified"
	// Keeping means that the section may have been made permanent.
	Keeping Stage = "keeping"
	// Uninstalling means that our files are being removed.
	Uninstalling Stage = "uninstalling"
)

var order = []Stage{Preparing, Installed, Applied, Verified, Keeping}

// Reached reports whether a roll is at a stage, or behind it.
func (s Stage) Reached(other Stage) bool {
	return slices.Index(order, s) >= slices.Index(order, other) && slices.Contains(order, s)
}

// Roll is a roll that has not ended.
type Roll struct {
	Wish
	Stage Stage `json:"stage"`
	// Deadline is the time at which the node goes back, by a clock that is never set.
	Deadline trialend.Moment `json:"deadline"`
	// Failed is the sentence of the stage that has failed, and Reason its word; empty for none.
	Failed string `json:"failed,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Tries means that the section is a new one, which is tried.
	Tries bool `json:"tries,omitempty"`
	// Changes lists the files that the roll changes, in the order in which it writes them.
	Changes []Change `json:"changes"`
	// Files lists the files of ours once the roll is kept.
	Files []File `json:"files"`
	// Before is the node before the roll.
	Before Snapshot `json:"before"`
	// Restarted is the runtime's service that the roll restarts for NRI, and that the way back or
	// the uninstallation has to restart; empty for none.
	Restarted string `json:"restarted,omitempty"`
	// Ready lists the UIDs of the members of the section that were Ready before.
	Ready []string `json:"ready,omitempty"`
	// ReadyUnknown is why it is not known which members were Ready; empty if it is.
	ReadyUnknown string `json:"readyUnknown,omitempty"`
}

// Due reports whether a roll has to go back at a time.
func (r *Roll) Due(now trialend.Moment) bool {
	return r.Failed != "" || r.Deadline.Over(now)
}

// InTheWay returns why no other roll begins before this one has ended.
func (r *Roll) InTheWay() error {
	//guard: an uninstallation that has not ended is said to be kept or to go back
	if r.Stage == Uninstalling {
		return errors.New("an uninstallation has not ended on this node: run it again before a roll")
	}
	return fmt.Errorf("roll %s has not ended on this node: it is kept or goes back before another one begins", r.Roll)
}

// Ended is a roll that went back.
type Ended struct {
	Roll   string `json:"roll"`
	Reason string `json:"reason"`
	// Why is the sentence of the stage that had failed.
	Why string `json:"why"`
	// Remains lists what is not as before; empty if the node is as before.
	Remains []string `json:"remains,omitempty"`
	// Before is the node before the roll, and Boot the boot of the way back. Both are there if
	// something remains: a look that comes later finds what was put in order since.
	Before *Snapshot `json:"before,omitempty"`
	Boot   string    `json:"boot,omitempty"`
}

// Both refuses a roll that changes the version and the section of a node that has both: what of the
// two does harm could not be told apart.
func (s *State) Both(w Wish) error {
	if s.Kept == nil || s.Kept.Version == w.Version || s.Kept.Section == w.Section {
		return nil
	}
	return fmt.Errorf(
		"this node has version %s and another section, and the roll brings version %s with a new section: roll the version out first, and the section in a second roll",
		s.Kept.Version, w.Version,
	)
}
