package evict

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"nodepartition/internal/statefile"
)

// History is what the state file keeps: what a restart must not forget, and the last evictions for people.
type History struct {
	// Open are evictions that are not through.
	Open []Eviction `json:"open,omitempty"`
	// Cooldown is that of State.
	Cooldown map[string]time.Time `json:"cooldown,omitempty"`
	// Stays is that of State.
	Stays map[string]uint64 `json:"stays,omitempty"`
	// Last are those that are, the newest last.
	Last []Eviction `json:"last,omitempty"`
}

// historySize is how many of the last evictions are kept.
const historySize = 20

// Store is the state file. It is on a tmpfs: after a boot there is nothing to go on with.
type Store string

// Read returns what is there, nothing where there is no file.
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

// write replaces the file as a whole.
func (s Store) write(h History) error {
	if err := statefile.Write(string(s), h, 0o600); err != nil {
		return fmt.Errorf("state of evictions: %w", err)
	}
	return nil
}
