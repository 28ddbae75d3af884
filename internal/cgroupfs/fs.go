// Package cgroupfs reads the cgroup v2 file system below kubepods.slice. It writes nothing: cgroups
// with a systemd unit are changed through systemd, which would overwrite other changes.
package cgroupfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"nodepartition/internal/unitname"
)

// Mount is the mount point of the unified hierarchy on a node with systemd.
const Mount = unitname.CgroupMount

// FS is a mounted cgroup v2 hierarchy, or a folder with the same layout.
type FS string

// maxShort exceeds the size of a file with a limit, a number or the few lines of cgroup.events.
const maxShort = 256

// read returns the text of a short file of a cgroup without the final newline.
func (f FS) read(cgroup, name string) (string, error) {
	var buffer [maxShort]byte
	path := filepath.Join(string(f), cgroup, name)
	n, err := ReadAt(unix.AT_FDCWD, path, buffer[:])
	if err != nil {
		return "", gone(&fs.PathError{Op: "read", Path: path, Err: err})
	}
	if n == len(buffer) {
		return "", fmt.Errorf("%s: holds %d bytes or more: not a file of a cgroup", path, n)
	}
	return strings.TrimSuffix(string(buffer[:n]), "\n"), nil
}

// Path returns the path of a cgroup in the file system.
func (f FS) Path(cgroup string) string { return filepath.Join(string(f), cgroup) }

// Has reports whether there is a cgroup. One that cannot be looked at is not there.
func (f FS) Has(cgroup string) bool { return f.exists(cgroup) == nil }

func (f FS) exists(cgroup string) error {
	_, err := os.Lstat(filepath.Join(string(f), cgroup))
	return err
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
