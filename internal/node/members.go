package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"nodepartition/internal/membership"
	"nodepartition/internal/statefile"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/slices/config"
	"nodepartition/pkg/slices/decision"
)

// MembersFile holds what the monitor follows, with the identity of its configuration. It counts
// where the generator's decision does not: after a SIGHUP, and without a decision, because the
// generator is not installed or is of an earlier version.
const MembersFile = config.StateDir + "/monitor/members.json"

// membersVersion is the version of MembersFile. A reader takes earlier ones, and refuses later
// ones.
const membersVersion = 1

// Members is the content of MembersFile.
type Members struct {
	Version int `json:"version"`
	// Partitions lists the partitions that are followed.
	Partitions []decision.Partition `json:"partitions"`
	// Workloads lists the workload types that are followed.
	Workloads []membership.Workload `json:"workloads,omitempty"`
	// Former lists partitions that were followed earlier in this boot and whose slices exist still:
	// pods are in them.
	Former []decision.Partition `json:"former,omitempty"`
	// Identity belongs to the configuration. It is empty in a file of an earlier version.
	Identity string `json:"identity,omitempty"`
	// Over is the identity of the generator's decision at that time; empty without one.
	Over string `json:"over,omitempty"`
}

// follows reports whether an operator has asked for these members by SIGHUP, and the generator has
// decided nothing else since.
func (m Members) follows(decided *decision.Decision) bool {
	//guard: members that were followed without a decision do not count over one
	//guard: a decision since ends a SIGHUP
	//guard: what was decided is no request of an operator
	return m.Over != "" && m.Over == decided.Identity && m.Identity != decided.Identity
}

// membersOf returns what is to be followed of a valid configuration.
func membersOf(c *config.Config) Members {
	return Members{Partitions: decision.PartitionsOf(c), Workloads: c.Workloads}
}

// equal reports whether the same is to be followed.
func (m Members) equal(other Members) bool {
	return slices.EqualFunc(m.Partitions, other.Partitions, decision.Partition.Equal) &&
		slices.EqualFunc(m.Workloads, other.Workloads, membership.Workload.Equal)
}

// of returns what was followed of a partition, the zero value if nothing was.
func (m Members) of(name unitname.PartitionName) decision.Partition {
	for _, p := range slices.Concat(m.Partitions, m.Former) {
		if p.Name == name {
			return p
		}
	}
	return decision.Partition{}
}

// unversioned is the file of the versions before membersVersion: it is of the system partition
// alone.
type unversioned struct {
	Members
	decision.Partition
}

// ofVersion returns the members of a file of a version that ReadVersion takes.
func (f unversioned) ofVersion() (Members, error) {
	m := f.Members
	if m.Version == 0 {
		f.Name = unitname.First
		m.Partitions = []decision.Partition{f.Partition}
	}
	m.Version = membersVersion
	//guard: a former partition without namespaces does not make the others unreadable
	for _, p := range m.Partitions {
		if len(p.Namespaces) == 0 && !config.MayBeEmpty(p.Name) {
			return m, errors.New("names no namespace")
		}
	}
	for _, p := range slices.Concat(m.Partitions, m.Former) {
		//guard: a partition whose name no unit can have is not followed
		if p.Name.Check() != nil {
			return m, fmt.Errorf("partition %q: the name %w", string(p.Name), p.Name.Check())
		}
	}
	if len(m.Partitions) == 0 {
		return m, errors.New("names no namespace")
	}
	return m, nil
}

// Keep stores what has to be known of a configuration when the next one is not valid.
type Keep func(path string, m Members) error

// ReadOnly is the Keep that writes nothing.
func ReadOnly(string, Members) error { return nil }

func readMembers(path string) (Members, error) {
	var read unversioned
	err := statefile.ReadVersion(path, membersVersion, &read)
	var file *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Members{}, errors.New(
			"there is no earlier valid configuration of this boot to follow; repair the configuration and run systemctl daemon-reload",
		)
	case errors.As(err, &file):
		return Members{}, err
	}
	var m Members
	if err == nil {
		m, err = read.ofVersion()
	}
	if err != nil {
		return Members{}, fmt.Errorf("%s: %w; remove it", path, err)
	}
	return m, nil
}

// WriteMembers is the Keep that replaces the whole file: a file that was cut off would lose the
// namespaces.
func WriteMembers(path string, m Members) error {
	m.Version = membersVersion
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = statefile.Write(path, m, 0o600)
	}
	if err != nil {
		return fmt.Errorf("state of the monitor: %w", err)
	}
	return nil
}
