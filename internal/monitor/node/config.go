package node

import (
	"errors"
	"os"

	"nodepartition/internal/unitname"
	"nodepartition/pkg/podmove"
	"nodepartition/pkg/slices/config"
	"nodepartition/pkg/slices/lowering"
)

// Configuration is what the kubelet's configuration asks for.
type Configuration struct {
	podmove.Config
	// Thresholds of eviction, nil where there is nothing to guard.
	Thresholds *Thresholds
	// Desired has no Partition where there is none.
	Desired *Desired
	// Problem is why the configuration is not valid and the last good one is followed.
	Problem error
	// NotApplied says that the files have another one since, which no reload of systemd has applied.
	NotApplied bool
}

// Desired is what the configuration asks for, of the generator and of us.
type Desired struct {
	*config.Config
	// Deferred says that the limit in force stays until we have evicted down to the configured one.
	Deferred bool
}

// ReadDesired reads the configuration as the generator does. Unlike the generator, which runs before it, we see the kubelet's command line.
func ReadDesired() (*Desired, error) { return NewDesired(config.Load("/")) }

// NewDesired returns the desired state of a configuration that config.Load or config.LoadWith has read.
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

// NotApplied is the message about an edit that only the files have.
const NotApplied = "the configuration was changed and is not applied yet: systemctl daemon-reload"

// LoadConfig reads the configuration. A broken one is the last good one, with the problem; without a last good one it is an
// error.
func LoadConfig(mode podmove.Mode, keep Keep) (Configuration, error) {
	desired, err := ReadDesired()
	c := Configuration{Desired: desired, Problem: err, Config: podmove.Config{Partition: unitname.System, Mode: mode}}
	switch {
	case err != nil:
		last, lastErr := readMembers(MembersFile)
		if lastErr != nil {
			return c, errors.Join(err, lastErr)
		}
		c.Namespaces = last.Namespaces
		if c.Thresholds = last.Eviction; c.Thresholds == nil {
			c.Thresholds = presentThresholds()
		}
	case desired.Partition == nil:
		c.Off = true
		if last, err := readMembers(MembersFile); err == nil {
			c.Namespaces = last.Namespaces // who they were, for the report
		}
	default:
		c.Namespaces, c.Thresholds = desired.Partition.Namespaces, newThresholds(desired.Partition)
		if err := keep(MembersFile, Members{c.Namespaces, c.Thresholds}); err != nil {
			return c, err
		}
	}
	return c, nil
}

// LoadApplied is LoadConfig, but for an edit that no reload of systemd has applied: the units are those of the last configuration, and a
// start of this program, which may be after a crash, is no reason to follow another one.
func LoadApplied(mode podmove.Mode, keep Keep) (Configuration, error) {
	c, err := LoadConfig(mode, ReadOnly)
	if err != nil || c.Problem != nil {
		return c, err
	}
	last, err := readMembers(MembersFile)
	if err == nil && !appliedSince(MembersFile) {
		if c.Off || !last.equal(Members{c.Namespaces, c.Thresholds}) {
			c.Off, c.NotApplied, c.Namespaces, c.Thresholds = false, true, last.Namespaces, last.Eviction
		}
		return c, nil
	}
	if c.Off {
		return c, nil
	}
	return c, keep(MembersFile, Members{c.Namespaces, c.Thresholds})
}

// appliedSince reports whether the generator has run since the file was written, or has no partition. It makes its folder anew with each run
// that succeeds.
func appliedSince(stateFile string) bool {
	units, err := os.Stat(config.StateDir + "/units")
	if err != nil {
		return true
	}
	kept, err := os.Stat(stateFile)
	return err != nil || units.ModTime().After(kept.ModTime())
}
