package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"nodepartition/internal/statefile"
	"nodepartition/pkg/slices/config"
	"nodepartition/pkg/slices/decision"
)

// MembersFile holds what the monitor follows, with the identity of its configuration. It counts
// where the generator's decision does not: after a SIGHUP, and without a decision, because the
// generator is not installed or is of an earlier version.
const MembersFile = config.StateDir + "/monitor/members.json"

// Members is the content of MembersFile.
type Members struct {
	decision.Members
	// Identity belongs to the configuration. It is empty in a file of an earlier version.
	Identity string `json:"identity,omitempty"`
	// Over is the identity of the generator's decision at that time; empty without one.
	Over string `json:"over,omitempty"`
}

// follows reports whether an operator has asked for these members by SIGHUP, and the generator has
// decided nothing else since.
func (m Members) follows(decided *decision.Decision) bool {
	return m.Over != "" && m.Over == decided.Identity && m.Identity != decided.Identity
}

// equal compares with the members of another configuration, nil for none.
func (m Members) equal(other *decision.Members) bool { return other != nil && m.Equal(*other) }

// Keep stores what has to be known of a configuration when the next one is not valid.
type Keep func(path string, m Members) error

// ReadOnly is the Keep that writes nothing.
func ReadOnly(string, Members) error { return nil }

func readMembers(path string) (Members, error) {
	var m Members
	err := statefile.Read(path, &m)
	var file *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return m, errors.New(
			"there is no earlier valid configuration of this boot to follow; repair the configuration and run systemctl daemon-reload",
		)
	case errors.As(err, &file):
		return m, err
	case err != nil:
		return m, fmt.Errorf("%s: %w; remove it", path, err)
	case len(m.Namespaces) == 0:
		return m, fmt.Errorf("%s: names no namespace; remove it", path)
	}
	return m, nil
}

// WriteMembers is the Keep that replaces the whole file: a file that was cut off would lose the
// namespaces.
func WriteMembers(path string, m Members) error {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = statefile.Write(path, m, 0o600)
	}
	if err != nil {
		return fmt.Errorf("state of the monitor: %w", err)
	}
	return nil
}
