package cgroups

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/partition"
)

// Mount is the mount point of the unified hierarchy on a node with systemd.
const Mount = partition.CgroupMount

// FS is a mounted cgroup v2 hierarchy, or a folder with the same layout.
type FS string

// maxShort exceeds the size of a file with a limit, a number or the few lines of cgroup.events.
const maxShort = 256

// read returns the text of a short file of a cgroup without the final newline.
func (f FS) read(cgroup, name string) (string, error) {
	var buffer [maxShort]byte
	path := filepath.Join(string(f), cgroup, name)
	n, err := f.readAt(unix.AT_FDCWD, path, buffer[:])
	if err != nil {
		return "", gone(&fs.PathError{Op: "read", Path: path, Err: err})
	}
	if n == len(buffer) {
		return "", fmt.Errorf("%s: holds %d bytes or more: not a file of a cgroup", path, n)
	}
	return strings.TrimSuffix(string(buffer[:n]), "\n"), nil
}

// maxLong bounds a file with a list: cgroup.procs of a cgroup with 100,000 processes.
const maxLong = 1 << 20

// ReadFile reads a file of a cgroup that may be long, as one with a list of processes or CPUs, or
// io.max with a line for each device.
func (f FS) ReadFile(cgroup, name string) (text []byte, err error) {
	path := filepath.Join(string(f), cgroup, name)
	defer func() {
		if err != nil {
			err = gone(&fs.PathError{Op: "read", Path: path, Err: err})
		}
	}()
	fd, err := Uninterrupted(func() (int, error) { return f.open(unix.AT_FDCWD, path, readOnly) })
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, cmp.Or(err, errNoCgroup)
	}
	text, err = io.ReadAll(io.LimitReader(file, maxLong+1))
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	if len(text) > maxLong {
		err = errNoCgroup
	}
	return text, err
}

// readOnly are flags for open. O_NONBLOCK: in a folder with the same layout, a file may be a FIFO.
const readOnly = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY

// errNoCgroup is the error of a file that the kernel would not make.
var errNoCgroup = errors.New("not a file of a cgroup")

// open opens a file of a cgroup, and follows no link: in an unpacked archive, one may lead to a
// file of this machine (openat2(2), Linux 5.6). The kernel's tree has none, and is opened without:
// in the sandbox of the unit openat2 fails (ENOSYS, seen with systemd 257; see docs/facts.md).
func (f FS) open(dir int, name string, flags int) (int, error) {
	if f.ofKernel() {
		return unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0)
	}
	//guard: no link among the cgroups of another node is followed
	how := unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(dir, name, &how)
	if errors.Is(err, unix.ELOOP) {
		err = fmt.Errorf("%w, but a link", errNoCgroup)
	}
	return fd, err
}

// ofKernel reports whether the cgroups are this machine's: f is the kernel's tree, one of its
// cgroups, or the root folder.
func (f FS) ofKernel() bool {
	return f == "" || f == "/" || f == Mount || strings.HasPrefix(string(f), Mount+"/")
}

// Path returns the path of a cgroup in the file system.
func (f FS) Path(cgroup string) string { return filepath.Join(string(f), cgroup) }

// Has reports whether there is a cgroup, or a file of one. One that cannot be looked at is not
// there.
func (f FS) Has(cgroup string) bool { return f.Exists(cgroup) == nil }

// Exists returns nil if there is a cgroup, or a file of one.
func (f FS) Exists(cgroup string) error {
	_, err := f.stat(cgroup)
	return err
}

func (f FS) stat(cgroup string) (unix.Stat_t, error) {
	path := filepath.Join(string(f), cgroup)
	var stat unix.Stat_t
	if f.ofKernel() { // without links, and so in one system call
		if err := unix.Lstat(path, &stat); err != nil {
			return stat, &fs.PathError{Op: "lstat", Path: path, Err: err}
		}
		return stat, nil
	}
	fd, err := f.open(unix.AT_FDCWD, path, unix.O_PATH)
	if err == nil {
		defer unix.Close(fd) // an O_PATH descriptor
		err = unix.Fstat(fd, &stat)
	}
	if err != nil {
		return stat, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return stat, nil
}

// gone replaces ENODEV by fs.ErrNotExist. Reading a file of a removed cgroup that was opened before
// fails with the former (kernfs_fop_read_iter), opening it afterwards with the latter.
func gone(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) && errors.Is(path.Err, unix.ENODEV) {
		return &fs.PathError{Op: path.Op, Path: path.Path, Err: fs.ErrNotExist}
	}
	return err
}
