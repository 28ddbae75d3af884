package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Lock is a lock that one process holds. It ends with the process.
type Lock struct{ file *os.File }

// LockFile locks a file of our state, and creates it if it does not exist. The error is EWOULDBLOCK
// if another process holds the lock.
func LockFile(path string) (*Lock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("state of the monitor: %w; it has to run as root", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state of the monitor: %w; it has to run as root", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Lock{file}, nil
}

// Close gives the lock up. It does not wait for the last copy of the file descriptor to be closed:
// a child that was forked and has not executed its program yet has one (flock(2)).
func (l *Lock) Close() error {
	//guard: a lock that was given up is held by a child that was just forked
	return errors.Join(unix.Flock(int(l.file.Fd()), unix.LOCK_UN), l.file.Close())
}
