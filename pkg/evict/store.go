package evict

import (
	"time"

	"nodepartition/internal/unitname"
)

// History is the content of the state file: the state that must survive a restart, and the last
// evictions for people to read.
type History struct {
	stamp
	// Open lists the evictions that are not closed.
	Open []Eviction `json:"open,omitempty"`
	// Cooldown is State.Cooldown.
	Cooldown map[string]time.Time `json:"cooldown,omitempty"`
	// Stays is State.Stays.
	Stays map[string]uint64 `json:"stays,omitempty"`
	// Last lists closed evictions, the newest last.
	Last []Eviction `json:"last,omitempty"`
}

// historySize is the number of closed evictions that are kept.
const historySize = 20

// Store is the path of the state file. It is on a tmpfs: after a boot there is nothing to continue.
type Store string

// Read returns the content of the file, and an empty History if there is no file, or if the file is
// not one of the partition that this program can read.
func (s Store) Read(partition unitname.PartitionName) (History, error) {
	var h History
	if err := readState(string(s), &h, partition); err != nil {
		return History{}, err
	}
	return h, nil
}

// write replaces the whole file.
func (s Store) write(partition unitname.PartitionName, h History) error {
	h.stamp = newStamp(partition)
	return writeState(string(s), h)
}
