package node

import (
	"errors"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/podmove"
	"nodepartition/pkg/slices/config"
	"nodepartition/pkg/slices/decision"
)

// Configuration is the configuration that the daemon follows.
type Configuration struct {
	podmove.Config
	// Thresholds of eviction, nil without a partition.
	Thresholds *Thresholds
	// Desired has no Partition if the configuration asks for none.
	Desired *Desired
	// Problem is the error of the present configuration. If there is one, the last good one is
	// followed.
	Problem error
	// Deferral is the generator's decision that a lowered limit waits for evictions; nil for none.
	Deferral *decision.Deferral
	// NotApplied means that the files have changed since, and that no reload of systemd has applied
	// that.
	NotApplied bool
}

// Desired is the configuration in the files, which the generator and the daemon are to follow.
type Desired struct {
	*config.Config
	// Deferral is nil, unless the generator has applied this configuration with another limit for now.
	Deferral *decision.Deferral
}

// ReadDesired reads the configuration as the generator does. Unlike the generator, which runs
// before the kubelet, we see its command line.
func ReadDesired() (*Desired, error) {
	desired, err := NewDesired(config.Load("/"))
	if decided, readErr := decision.Read("/"); err == nil && readErr == nil {
		desired.compare(decided)
	}
	return desired, err
}

// NewDesired returns the desired state of a configuration that config.Load or config.LoadWith has
// returned.
func NewDesired(c *config.Config, err error) (*Desired, error) {
	d := &Desired{Config: c}
	if why := RunningYields(); why != "" {
		d.Partition, d.ManagedByKubelet = nil, why
		return d, nil
	}
	return d, err
}

// compare completes a valid configuration by what the generator has decided of it, if that is its
// last decision.
func (d *Desired) compare(decided *decision.Decision) {
	if decided == nil || decided.Deferral == nil || decided.Identity != d.Identity() {
		return
	}
	d.Deferral = decided.Deferral
	d.Warnings = append(d.Warnings, decided.Deferral.Warning)
}

// NotApplied is the message about an edit that was not applied.
const NotApplied = "the configuration was changed and is not applied yet: systemctl daemon-reload"

// LoadConfig reads the configuration in the files, and follows it even if no reload of systemd has
// applied it. If it is broken, LoadConfig is LoadApplied.
func LoadConfig(mode podmove.Mode, keep Keep) (Configuration, error) {
	n := readNode(mode)
	if n.Problem != nil {
		return n.applied(keep)
	}
	return n.files(keep)
}

// LoadApplied returns the configuration that the generator has applied: that of its decision. A
// start of this program, perhaps after a crash, is no reason to follow another one. It is also
// followed while the files are broken. An operator's SIGHUP counts until the next decision.
//
// Without a decision LoadApplied follows the files, and the last good ones while they are broken.
// It returns an error if there is nothing to follow.
func LoadApplied(mode podmove.Mode, keep Keep) (Configuration, error) {
	return readNode(mode).applied(keep)
}

// LoadReloaded is LoadApplied after a reload of systemd, which ends an operator's SIGHUP. The
// decision does not show that if the edit was taken back: then it is the same as before the SIGHUP.
// A file that is broken changes nothing.
func LoadReloaded(mode podmove.Mode, keep Keep) (Configuration, error) {
	return readNode(mode).reloaded(keep)
}

// reading holds the three sources: the files, the decision, and what was followed.
type reading struct {
	Configuration
	// decided is nil without a decision.
	decided *decision.Decision
	// outdated means that there are units without a decision.
	outdated bool
	last     Members
	lastErr  error
}

// readNode reads the files, the generator's decision, and what we have followed.
func readNode(mode podmove.Mode) *reading {
	n := &reading{}
	n.Partition, n.Mode = unitname.System, mode
	n.Desired, n.Problem = NewDesired(config.Load("/"))
	var err error
	n.decided, err = decision.Read("/")
	switch {
	case err == nil && n.decided != nil:
		n.Deferral = n.decided.Deferral
		if n.Problem == nil {
			n.Desired.compare(n.decided)
		}
	case err != nil:
		n.outdated = true
		if !errors.Is(err, decision.ErrNone) {
			n.Problem = errors.Join(n.Problem, err)
		}
	}
	n.last, n.lastErr = readMembers(MembersFile)
	return n
}

// applied follows what the generator has applied.
func (n *reading) applied(keep Keep) (Configuration, error) {
	switch {
	case n.decided != nil && n.lastErr == nil && n.last.follows(n.decided):
		n.NotApplied = n.Problem == nil && n.last.Identity != n.Desired.Identity()
		n.follow(&n.last.Members)
	case n.decided != nil:
		n.NotApplied = n.Problem == nil && n.decided.Identity != n.Desired.Identity()
		n.follow(n.decided.Members)
		return n.Configuration, n.keep(keep, n.decided.Members, n.decided.Identity)
	case n.Problem != nil:
		if n.lastErr != nil {
			return n.Configuration, errors.Join(n.Problem, n.lastErr)
		}
		n.follow(&n.last.Members)
	case n.outdated && n.lastErr == nil && !n.last.equal(decision.MembersOf(n.Desired.Config)):
		n.NotApplied = true
		n.follow(&n.last.Members)
	default:
		return n.files(keep)
	}
	return n.Configuration, nil
}

// reloaded follows what the generator has applied just now.
func (n *reading) reloaded(keep Keep) (Configuration, error) {
	if n.Problem == nil {
		n.last.Over = ""
	}
	return n.applied(keep)
}

// files follows the files.
func (n *reading) files(keep Keep) (Configuration, error) {
	members := decision.MembersOf(n.Desired.Config)
	n.follow(members)
	return n.Configuration, n.keep(keep, members, n.Desired.Identity())
}

// follow fills in the configuration to follow. Without members it keeps the former namespaces, for
// the report.
func (n *reading) follow(members *decision.Members) {
	if members == nil || n.Desired.ManagedByKubelet != "" {
		n.Off, n.Namespaces = true, n.last.Namespaces
		return
	}
	n.Namespaces, n.Thresholds = members.Namespaces, (*Thresholds)(members.Eviction)
	n.Floor = cgroupfs.Protection(members.Floor)
	if n.Thresholds == nil {
		n.Thresholds = presentThresholds()
	}
	if n.Deferral != nil && (n.Thresholds == nil || n.Thresholds.Limit != n.Deferral.Limit) {
		n.Deferral = nil // an operator's SIGHUP asks for another limit
	}
}

// keep stores the members that are followed, with their identity, if there are any.
func (n *reading) keep(keep Keep, members *decision.Members, identity string) error {
	if n.Off {
		return nil
	}
	m := Members{Members: *members, Identity: identity}
	if n.decided != nil {
		m.Over = n.decided.Identity
	}
	return keep(MembersFile, m)
}
