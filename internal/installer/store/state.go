package store

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

	"nodepartition/internal/installer/record"
	"nodepartition/internal/statefile"
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
	data, err := s.Root.ReadFile(s.In(state), maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return record.State{Format: record.Format}, nil
	}
	if err == nil {
		err = statefile.Decode(data, record.Format, &known)
	}
	if err != nil {
		return known, fmt.Errorf("%s: %w; what this installer has done on the node is not known: see docs/fleet-node.md", s.In(state), err)
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
	return s.WriteBytes(s.In(state), append(data, '\n'), 0o600)
}

// errLocked means that another process works on the node for the installer.
var errLocked = errors.New("another call of the installer works on this node: wait until it ends")

// Lock takes the lock of the node, and returns what gives it back. It tries again each second while
// another process has the lock, until the context ends.
func (s Store) Lock(ctx context.Context) (unlock func(), err error) {
	for {
		//guard: one installer works on a node at a time
		unlock, err = s.tryLock()
		if !errors.Is(err, errLocked) {
			return unlock, err
		}
		timer := time.NewTimer(time.Second)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
	}
}

// tryLock takes the lock, or returns errLocked. It opens the file each time: Clean removes it.
func (s Store) tryLock() (unlock func(), err error) {
	path, err := s.Root.Path(s.In(lock))
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := hold(file, path); err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", s.In(lock), err)
	}
	return func() { file.Close() }, nil
}

// hold takes the lock of the file that was opened at a path, or returns errLocked.
func hold(file *os.File, path string) error {
	var err error
	for {
		if err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errLocked
	}
	if err != nil {
		return err
	}
	has, err := file.Stat()
	if err != nil {
		return err
	}
	// Clean may have removed the file since it was opened, and others lock the next one.
	//guard: the lock of a file that is gone keeps nobody away
	if is, err := os.Lstat(path); err != nil || !os.SameFile(has, is) {
		return errLocked
	}
	return nil
}

// Clean removes what a change has brought to the folder. Without a state it removes all but the
// messages of calls that wait, and the lock last: the caller holds it.
func (s Store) Clean(known record.State) error {
	if err := s.forgetDead(); err != nil {
		return err
	}
	names := []string{Monitor, Section}
	if known.Kept == nil && known.Roll == nil {
		names = append(names, Program)
		if len(known.Remains) == 0 {
			names = append(names, state, lock)
		}
	}
	for _, name := range names {
		if err := s.Remove(s.In(name)); err != nil {
			return err
		}
	}
	return nil
}
