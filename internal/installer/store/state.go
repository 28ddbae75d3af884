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

	"nodepartition/internal/installer/manifest"
	"nodepartition/internal/statefile"
)

// maxState bounds the state file: a few hundred files with their paths.
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
func (s Store) State() (manifest.State, error) {
	var state manifest.State
	data, err := s.Root.ReadFile(s.In(State), maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return manifest.State{Format: manifest.Format}, nil
	}
	if err == nil {
		err = statefile.Decode(data, manifest.Format, &state)
	}
	if err != nil {
		return state, fmt.Errorf("%s: %w; what this installer has done on the node is not known: see docs/fleet-installer.md", s.In(State), err)
	}
	return state, nil
}

// SetState replaces the state.
func (s Store) SetState(state manifest.State) error {
	state.Format = manifest.Format
	return s.WriteJSON(State, state)
}

// WriteJSON replaces a file of the folder by v as JSON.
func (s Store) WriteJSON(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.WriteBytes(s.In(name), append(data, '\n'), 0o600)
}

// ReadJSON reads a file of the folder.
func (s Store) ReadJSON(name string, v any) error {
	data, err := s.Root.ReadFile(s.In(name), maxState)
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.In(name), err)
	}
	return nil
}

// errLocked means that another process works on the node for the installer.
var errLocked = errors.New("another stage of the installer runs on this node: wait until it ends")

// Lock takes the lock of the node, and returns what gives it back, once or more often. With wait it
// tries again each second while another process has the lock, until the context ends.
func (s Store) Lock(ctx context.Context, wait bool) (unlock func(), err error) {
	for {
		unlock, err = s.tryLock()
		if !wait || !errors.Is(err, errLocked) {
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

// tryLock takes the lock, or returns errLocked. It opens the file each time: Empty removes it.
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
	// Empty may have removed the file since it was opened, and others lock the next one.
	//guard: the lock of a file that is gone keeps nobody away
	if is, err := os.Lstat(path); err != nil || !os.SameFile(has, is) {
		return errLocked
	}
	return nil
}

// Empty removes all that is in the folder, and the lock last: the caller holds it.
func (s Store) Empty() error {
	entries, err := s.Root.ReadDir(s.Folder, maxEntries)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == lock {
			continue
		}
		if err := s.RemoveTree(s.In(e.Name())); err != nil {
			return err
		}
	}
	return s.Remove(s.In(lock))
}

// RemoveMessages removes the requests and results of all rolls.
func (s Store) RemoveMessages() error {
	folder, err := s.Root.Path(s.Folder)
	if err != nil {
		return err
	}
	var errs []error
	for _, pattern := range messages {
		paths, err := filepath.Glob(filepath.Join(folder, pattern))
		errs = append(errs, err)
		for _, p := range paths {
			errs = append(errs, s.Remove(s.In(filepath.Base(p))))
		}
	}
	return errors.Join(errs...)
}
