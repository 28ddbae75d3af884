package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"nodepartition/internal/statefile"
	"nodepartition/pkg/slices/config"
)

// MembersFile holds the namespaces of the last valid configuration of this boot. If the
// configuration is broken, the generator keeps the last good units, and we keep the last good
// namespaces, also after a restart: the units do not contain the namespaces.
const MembersFile = config.StateDir + "/monitor/members.json"

// Members is the content of MembersFile.
type Members struct {
	Namespaces []string `json:"namespaces"`
	// Eviction is nil in a file of an earlier version: the partition then has the default threshold
	// below the limit that is in force.
	Eviction *Thresholds `json:"eviction,omitempty"`
	// Floor is the protected memory of the partition.
	Floor Floor `json:"floor,omitzero"`
}

// Floor is protected memory in bytes: memory.min and memory.low.
type Floor struct {
	Min uint64 `json:"min"`
	Low uint64 `json:"low"`
}

func (m Members) equal(other Members) bool {
	same := m.Eviction == nil || other.Eviction != nil && *m.Eviction == *other.Eviction
	return same && m.Floor == other.Floor && slices.Equal(m.Namespaces, other.Namespaces)
}

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
