package cgroupfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxFile exceeds the size of any file that Stat reads. The kernel formats the longest,
// memory.stat, in a buffer of 4 KiB (SEQ_BUF_SIZE, mm/memcontrol.c).
const maxFile = 8 << 10

// files reads the files of one cgroup, one after the other into the same buffer, and keeps the
// first error.
//
// It does not use os.File, which registers every file that can be polled with the poller, and
// kernfs files can be. For three files os.ReadFile takes 1.9 times as long as open, read and close
// alone (a cgroup of Linux 6.18).
type files struct {
	root   FS
	cgroup string
	// dir is an open folder, or notOpen: the cgroup's own, or the one above it if below is set. To
	// open its own pays for the thirteen files of Stat, and costs more than it saves for three. Many
	// cgroups share the one above (Folders).
	dir int
	// below is the name of the cgroup in dir, empty if dir is the cgroup's own folder.
	below string
	// absent means that a file was missing: its controller is off, or the whole cgroup is gone.
	absent bool
	err    error
	buffer [maxFile]byte
}

// notOpen makes read use the whole path of each file.
const notOpen = -1

func (f *files) open() { f.dir, f.err = f.root.openFolder(f.cgroup) }

// openFolder opens the folder of a cgroup for Openat alone. It returns notOpen with an error.
func (f FS) openFolder(cgroup string) (int, error) {
	path := f.Path(cgroup)
	dir, err := Uninterrupted(
		func() (int, error) { return f.open(unix.AT_FDCWD, path, unix.O_PATH|unix.O_DIRECTORY) },
	)
	if err != nil {
		return notOpen, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return dir, nil
}

func (f *files) close() {
	if f.dir != notOpen {
		_ = unix.Close(f.dir) // of an O_PATH descriptor
	}
}

// result returns the first error. If the cgroup is removed meanwhile, its files are missing, as if
// a controller were off.
func (f *files) result() error {
	switch {
	case f.err != nil || !f.absent:
		return f.err
	case f.below != "":
		// Its path may lead to a new cgroup of the same name: the folder was removed and created.
		if err := unix.Faccessat(f.dir, f.below, unix.F_OK, 0); err != nil {
			return &fs.PathError{Op: "access", Path: f.root.Path(f.cgroup), Err: err}
		}
		return nil
	}
	return f.root.Exists(f.cgroup)
}

func (f *files) fail(name string, err error) {
	f.err = fmt.Errorf("%s: %w", filepath.Join(string(f.root), f.cgroup, name), err)
}

// read returns the text of a file, which is valid until the next call. It returns false for a
// missing file, and after an error.
func (f *files) read(name string) ([]byte, bool) {
	if f.err != nil {
		return nil, false
	}
	dir, file := f.dir, name
	switch {
	case dir == notOpen:
		dir, file = unix.AT_FDCWD, string(f.root)+"/"+f.cgroup+"/"+name
	case f.below != "":
		file = f.below + "/" + name
	}
	n, err := f.root.readAt(dir, file, f.buffer[:])
	switch {
	case err == nil && n == len(f.buffer):
		f.fail(name, fmt.Errorf("holds %d bytes or more: not a file of a cgroup", n))
		return nil, false
	case err == nil:
		return f.buffer[:n], true
	// ENODEV: the cgroup was removed after the open. EOPNOTSUPP: pressure is off (psi_show,
	// kernel/sched/psi.c).
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.EOPNOTSUPP):
		f.absent = true
		return nil, false
	}
	f.fail(name, err)
	return nil, false
}

// ReadAt reads a file below the directory dir with one read. The kernel formats the whole of such a
// file first and then copies as much as the buffer holds (seq_read_iter, fs/seq_file.c). A second
// read, for the end of the file, would be a fifth of all system calls.
func ReadAt(dir int, name string, buffer []byte) (int, error) {
	return FS(Mount).readAt(dir, name, buffer)
}

func (f FS) readAt(dir int, name string, buffer []byte) (int, error) {
	fd, err := Uninterrupted(func() (int, error) { return f.open(dir, name, readOnly) })
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return Uninterrupted(func() (int, error) { return unix.Read(fd, buffer) })
}

// Uninterrupted repeats a system call that a signal interrupted, as package os does: the Go runtime
// sends itself signals.
func Uninterrupted(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
