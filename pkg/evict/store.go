package evict

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
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
	data, err := os.ReadFile(string(s))
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return h, fmt.Errorf("state of evictions: %w", err)
	}
	if err := json.Unmarshal(data, &h); err != nil {
		return History{}, fmt.Errorf("state of evictions: %s: %w; remove it", string(s), err)
	}
	return h, nil
}

// write replaces the file as a whole.
func (s Store) write(h History) error {
	data, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("state of evictions: %w", err)
	}
	// One writer, so one name: a file that a killed run left is written over.
	temporary := filepath.Join(filepath.Dir(string(s)), "."+filepath.Base(string(s))+".new")
	if err := os.WriteFile(temporary, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("state of evictions: %w", err)
	}
	if err := os.Rename(temporary, string(s)); err != nil {
		return fmt.Errorf("state of evictions: %w", err)
	}
	return nil
}
