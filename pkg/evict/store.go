package evict

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"nodepartition/internal/statefile"
)

// History is the content of the state file: the state that must survive a restart, and the last
// evictions for people to read.
type History struct {
	// Open lists the evictions that are not closed.
	Open []Eviction `json:"open,omitempty"`
	// Cooldown is State.Cooldown.
	Cooldown map[string]time.Time `json:"cooldown,omitempty"`
	// Stays is State.Stays.
	Stays map[string]uint64 `json:"stays,omitempty"`
	// Left is State.Left.
	Left leftBehind `json:"left,omitzero"`
	// Last lists closed evictions, the newest last.
	Last []Eviction `json:"last,omitempty"`
}

// historySize is the number of closed evictions that are kept.
const historySize = 20

// Store is the path of the state file. It is on a tmpfs: after a boot there is nothing to continue.
type Store string

// Read returns the content of the file, and an empty History if there is no file.
func (s Store) Read() (History, error) {
	var h History
	err := statefile.Read(string(s), &h)
	var file *fs.PathError
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return h, nil
	case errors.As(err, &file):
		return h, fmt.Errorf("state of evictions: %w", err)
	}
	return History{}, fmt.Errorf("state of evictions: %s: %w; remove it", string(s), err)
}

// write replaces the whole file.
func (s Store) write(h History) error {
	if err := statefile.Write(string(s), h, 0o600); err != nil {
		return fmt.Errorf("state of evictions: %w", err)
	}
	return nil
}
