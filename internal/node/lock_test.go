package node

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLock: one holder at a time. A lock that was given up is free at once, although a child that
// was just forked still has a copy of its file descriptor.
func TestLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state", "lock")
	first, err := LockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LockFile(path); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("%v; want that it is held", err)
	}
	copied, err := unix.FcntlInt(first.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(copied)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := LockFile(path)
	if err != nil {
		t.Fatalf("%v; want that it is free", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}
