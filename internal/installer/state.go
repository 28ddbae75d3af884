package installer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/installer/record"
)

// The names in the folder, beside those of messages.
const (
	// Program is this program.
	Program = "partition-installer"
	// Monitor is the new partition-monitor, which judges the node before it is installed.
	Monitor = "partition-monitor"
	// Section is the new section. By this name the programs take it for a node-partition.yaml.
	Section = "node-partition.yaml"

	stateFile = "state.json"
)

// maxState bounds the state file and a message, which has a section.
const maxState = 4 << 20

// maxEntries bounds the names in the folder.
const maxEntries = 10_000

// Store is the installer's folder.
type Store struct {
	Disk
	// Folder is the path of the folder below Root.
	Folder string
}

// In returns the name of a file of the folder.
func (s Store) In(name string) string { return filepath.Join(s.Folder, name) }

// State reads the state. It returns an empty one if there is none.
func (s Store) State() (record.State, error) {
	var known record.State
	data, err := s.Root.ReadFile(s.In(stateFile), maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return record.State{Format: record.Format}, nil
	}
	if err == nil {
		err = host.DecodeState(data, record.Format, &known)
	}
	if err != nil {
		return known, fmt.Errorf("%s: %w; what this installer has done on the node is not known: see docs/fleet-node.md", s.In(stateFile), err)
	}
	return known, nil
}

// SetState replaces the state.
func (s Store) SetState(known record.State) error {
	known.Format = record.Format
	data, err := json.Marshal(known)
	if err != nil {
		return err
	}
	return s.WriteBytes(s.In(stateFile), append(data, '\n'), 0o600)
}

// errLocked means that another process works on the node for the installer.
var errLocked = errors.New("another call of the installer works on this node: wait until it ends")

// Lock takes the lock of the node, which is that of the folder, and returns what gives it back. It
// tries again each second while another process has the lock, until the context ends.
func (s Store) Lock(ctx context.Context) (unlock func(), err error) {
	path, err := s.Root.Path(s.Folder)
	if err != nil {
		return nil, err
	}
	folder, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	for {
		//guard: one installer works on a node at a time
		err = unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { folder.Close() }, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			err = errLocked
		case !errors.Is(err, unix.EINTR):
			folder.Close()
			return nil, fmt.Errorf("the lock of %s: %w", s.Folder, err)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			folder.Close()
			return nil, err
		}
	}
}

// Clean removes what a change has brought to the folder, and messages whose callers are gone.
// Without a state it removes all but what the calls that wait have brought. The caller holds the
// lock.
func (s Store) Clean(known record.State) error {
	waits, err := s.forgetDead()
	if err != nil {
		return err
	}
	names := []string{Monitor, Section}
	if known.Kept == nil && known.Rollout == nil {
		//guard: the program is taken from a call that waits
		if !waits {
			names = append(names, Program)
		}
		if known.Before == nil {
			names = append(names, stateFile)
		}
	}
	for _, name := range names {
		if err := s.Remove(s.In(name)); err != nil {
			return err
		}
	}
	return nil
}
