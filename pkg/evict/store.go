package evict

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"node-partition.io/node-partition/internal/host"
)

// History is the content of the state file: the state that must survive a restart, and the last
// evictions for people to read.
type History struct {
	Version int `json:"version"`
	// Open lists the evictions that are not closed.
	Open []Eviction `json:"open,omitempty"`
	// Cooldown is State.Cooldown.
	Cooldown map[string]time.Time `json:"cooldown,omitempty"`
	// Unreclaimable is State.Unreclaimable.
	Unreclaimable map[string]uint64 `json:"stays,omitempty"`
	// LeftAt is State.LeftAt.
	LeftAt time.Time `json:"leftAt,omitzero"`
	// Last lists closed evictions, the newest last.
	Last []Eviction `json:"last,omitempty"`
	// Shortage is what is known of the present shortage of memory.
	Shortage shortage `json:"shortage,omitzero"`
}

// historySize is the number of closed evictions that are kept.
const historySize = 20

// Store is the path of the state file. It is on a tmpfs: after a boot there is nothing to continue.
type Store string

// stateVersion is the version of the state file. It is raised when a field changes its meaning. A
// new field does not raise it: a program ignores fields that it does not know.
const stateVersion = 1

// Read returns the content of the file. It is empty if there is no file, and with an error.
func (s Store) Read() (History, error) {
	var h History
	//guard: a state file of another version is dropped
	err := host.ReadStateVersion(string(s), stateVersion, &h)
	switch {
	case err == nil:
		return h, nil
	case errors.Is(err, fs.ErrNotExist):
		return History{}, nil
	case errors.As(err, new(*fs.PathError)):
		return History{}, fmt.Errorf("state of evictions: %w", err)
	}
	return History{}, fmt.Errorf("state of evictions: %s: %w; remove it", string(s), err)
}

// write replaces the whole file.
func (s Store) write(h History) error {
	h.Version = stateVersion
	if err := host.WriteState(string(s), h, 0o600); err != nil {
		return fmt.Errorf("state of evictions: %w", err)
	}
	return nil
}
