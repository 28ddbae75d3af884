package node

import (
	"errors"
	"os"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/podmove"
	"nodepartition/pkg/slices/config"
	"nodepartition/pkg/slices/lowering"
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
	// NotApplied means that the files have changed since, and that no reload of systemd has applied
	// that.
	NotApplied bool
}

// Desired is the configuration in the files, which the generator and the daemon are to follow.
type Desired struct {
	*config.Config
	// Deferred means that the limit in force remains until we have evicted down to the configured one.
	Deferred bool
}

// ReadDesired reads the configuration as the generator does. Unlike the generator, which runs
// before the kubelet, we see its command line.
func ReadDesired() (*Desired, error) { return NewDesired(config.Load("/")) }

// NewDesired returns the desired state of a configuration that config.Load or config.LoadWith has
// returned.
func NewDesired(c *config.Config, err error) (*Desired, error) {
	a := &Desired{Config: c}
	if deferral := lowering.Find("/", c); deferral != nil {
		a.Deferred = true
		a.Warnings = append(a.Warnings, deferral.Warning)
	}
	if why := RunningYields(); why != "" {
		a.Partition, a.ManagedByKubelet = nil, why
		return a, nil
	}
	return a, err
}

// NotApplied is the message about an edit that was not applied.
const NotApplied = "the configuration was changed and is not applied yet: systemctl daemon-reload"

// LoadConfig reads the configuration. If it is broken, LoadConfig returns the last good one with
// the problem, or an error if there is no last good one.
func LoadConfig(mode podmove.Mode, keep Keep) (Configuration, error) {
	desired, err := ReadDesired()
	c := Configuration{Desired: desired, Problem: err, Config: podmove.Config{Partition: unitname.System, Mode: mode}}
	switch {
	case err != nil:
		last, lastErr := readMembers(MembersFile)
		if lastErr != nil {
			return c, errors.Join(err, lastErr)
		}
		c.Namespaces, c.Floor = last.Namespaces, cgroupfs.Protection(last.Floor)
		if c.Thresholds = last.Eviction; c.Thresholds == nil {
			c.Thresholds = presentThresholds()
		}
	case desired.Partition == nil:
		c.Off = true
		if last, err := readMembers(MembersFile); err == nil {
			c.Namespaces = last.Namespaces // the former ones, for the report
		}
	default:
		c.Namespaces, c.Thresholds = desired.Partition.Namespaces, newThresholds(desired.Partition)
		c.Floor = cgroupfs.Protection(desired.Settings.Floor)
		if err := keep(MembersFile, c.members()); err != nil {
			return c, err
		}
	}
	return c, nil
}

// LoadApplied is LoadConfig without edits that no reload of systemd has applied: the units are
// those of the last configuration. A start of this program, perhaps after a crash, is no reason to
// follow another one.
func LoadApplied(mode podmove.Mode, keep Keep) (Configuration, error) {
	c, err := LoadConfig(mode, ReadOnly)
	if err != nil || c.Problem != nil {
		return c, err
	}
	last, err := readMembers(MembersFile)
	if err == nil && !appliedSince(MembersFile) {
		if c.Off || !last.equal(c.members()) {
			c.Off, c.NotApplied, c.Namespaces, c.Thresholds = false, true, last.Namespaces, last.Eviction
			c.Floor = cgroupfs.Protection(last.Floor)
		}
		return c, nil
	}
	if c.Off {
		return c, nil
	}
	return c, keep(MembersFile, c.members())
}

// members returns what has to be known of the configuration when the next one is not valid.
func (c *Configuration) members() Members { return Members{c.Namespaces, c.Thresholds, Floor(c.Floor)} }

// appliedSince reports whether the generator has run since stateFile was written, or has no
// partition. Each successful run of the generator creates its folder again.
func appliedSince(stateFile string) bool {
	units, err := os.Stat(config.StateDir + "/units")
	if err != nil {
		return true
	}
	kept, err := os.Stat(stateFile)
	return err != nil || units.ModTime().After(kept.ModTime())
}
