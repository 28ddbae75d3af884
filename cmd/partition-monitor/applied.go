package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	stdslices "slices"
	"time"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/statefile"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/podmove"
	"nodepartition/pkg/slices/config"
	"nodepartition/pkg/slices/lowering"
)

// membersFile keeps the namespaces of the last valid configuration of this boot. The generator keeps the units of it when the
// configuration is broken, and so must we, after a restart too: the units do not tell the namespaces.
const membersFile = config.StateDir + "/monitor/members.json"

// members is the content of membersFile.
type members struct {
	Namespaces []string `json:"namespaces"`
	// Eviction is nil in a file that an earlier version wrote: the partition then has the default threshold below the limit
	// that is in force.
	Eviction *thresholds `json:"eviction,omitempty"`
}

// thresholds are what eviction goes by; bytes and nanoseconds. A MaxPodGrace below zero is the
// pod's own.
type thresholds struct {
	Limit          uint64        `json:"limit"`
	Hard           uint64        `json:"hard"`
	Soft           uint64        `json:"soft"`
	SoftGrace      time.Duration `json:"softGrace"`
	MaxPodGrace    time.Duration `json:"maxPodGrace"`
	MinimumReclaim uint64        `json:"minimumReclaim"`
}

func newThresholds(p *config.Partition) *thresholds {
	limit := p.MemoryLimit
	t := thresholds{Limit: uint64(limit), MaxPodGrace: -1, MinimumReclaim: uint64(p.MinimumReclaim)}
	if p.MaxPodGracePeriod != nil {
		t.MaxPodGrace = *p.MaxPodGracePeriod
	}
	if hard, ok := p.Eviction.Of(limit); ok {
		t.Hard = uint64(hard)
	}
	if p.EvictionSoft != nil {
		if soft, ok := p.EvictionSoft.Of(limit); ok {
			t.Soft, t.SoftGrace = uint64(soft), p.EvictionSoft.GracePeriod
		}
	}
	return &t
}

// presentThresholds are the default ones of the limit that is in force.
func presentThresholds() *thresholds {
	limits, err := cgroupfs.FS(cgroupfs.Mount).Limits(unitname.CgroupPath(unitname.System.Slice()))
	if err != nil || limits.MemoryMax > math.MaxInt64 {
		return nil
	}
	return newThresholds(&config.Partition{MemoryLimit: int64(limits.MemoryMax)})
}

// configuration is what the kubelet's configuration asks for.
type configuration struct {
	podmove.Config
	// thresholds of eviction, nil where there is nothing to guard.
	thresholds *thresholds
	// asked has no Partition where there is none.
	asked *asked
	// problem is why the configuration is not valid and the last good one is followed.
	problem error
	// unapplied says that the files have another one since, which no reload of systemd has applied.
	unapplied bool
}

// asked is what the configuration asks for, of the generator and of us.
type asked struct {
	*config.Config
	// deferred says that the limit in force stays until we have evicted down to the configured one.
	deferred bool
}

// readAsked reads the configuration as the generator does. Unlike the generator, which runs before it, we see the kubelet's command line.
func readAsked() (*asked, error) { return newAsked(config.Load("/")) }

func newAsked(c *config.Config, err error) (*asked, error) {
	a := &asked{Config: c}
	if deferral := lowering.Find("/", c); deferral != nil {
		a.deferred = true
		a.Warnings = append(a.Warnings, deferral.Warning)
	}
	if why := runningYields(); why != "" {
		a.Partition, a.Yields = nil, why
		return a, nil
	}
	return a, err
}

// loadConfig reads the configuration. A broken one is the last good one, with the problem; without a last good one it is an
// error. keep is writeMembers, or readOnly.
func loadConfig(mode podmove.Mode, stateFile string, keep func(string, members) error) (configuration, error) {
	asked, err := readAsked()
	c := configuration{asked: asked, problem: err, Config: podmove.Config{Partition: unitname.System, Mode: mode}}
	switch {
	case err != nil:
		last, lastErr := readMembers(stateFile)
		if lastErr != nil {
			return c, errors.Join(err, lastErr)
		}
		c.Namespaces = last.Namespaces
		if c.thresholds = last.Eviction; c.thresholds == nil {
			c.thresholds = presentThresholds()
		}
	case asked.Partition == nil:
		c.Off = true
		if last, err := readMembers(stateFile); err == nil {
			c.Namespaces = last.Namespaces // who they were, for the report
		}
	default:
		c.Namespaces, c.thresholds = asked.Partition.Namespaces, newThresholds(asked.Partition)
		if err := keep(stateFile, members{c.Namespaces, c.thresholds}); err != nil {
			return c, err
		}
	}
	return c, nil
}

// loadApplied is loadConfig, but for an edit that no reload of systemd has applied: the units are those of the last configuration, and a
// start of this program, which may be after a crash, is no reason to follow another one.
func loadApplied(mode podmove.Mode, stateFile string, keep func(string, members) error) (configuration, error) {
	c, err := loadConfig(mode, stateFile, readOnly)
	if err != nil || c.problem != nil {
		return c, err
	}
	last, err := readMembers(stateFile)
	if err == nil && !appliedSince(stateFile) {
		if c.Off || !last.equal(members{c.Namespaces, c.thresholds}) {
			c.Off, c.unapplied, c.Namespaces, c.thresholds = false, true, last.Namespaces, last.Eviction
		}
		return c, nil
	}
	if c.Off {
		return c, nil
	}
	return c, keep(stateFile, members{c.Namespaces, c.thresholds})
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

func (m members) equal(other members) bool {
	same := m.Eviction == nil || other.Eviction != nil && *m.Eviction == *other.Eviction
	return same && stdslices.Equal(m.Namespaces, other.Namespaces)
}

// readOnly keeps nothing.
func readOnly(string, members) error { return nil }

func readMembers(path string) (members, error) {
	var m members
	err := statefile.Read(path, &m)
	var file *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return m, errors.New("there is no earlier valid configuration of this boot to follow; repair it and run systemctl daemon-reload")
	case errors.As(err, &file):
		return m, err
	case err != nil:
		return m, fmt.Errorf("%s: %w; remove it", path, err)
	case len(m.Namespaces) == 0:
		return m, fmt.Errorf("%s: names no namespace; remove it", path)
	}
	return m, nil
}

// writeMembers replaces the file as a whole: a file that was cut off would lose the namespaces.
func writeMembers(path string, m members) error {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = statefile.Write(path, m, 0o600)
	}
	if err != nil {
		return fmt.Errorf("state of the monitor: %w", err)
	}
	return nil
}
