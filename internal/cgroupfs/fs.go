// Package cgroupfs reads the cgroup v2 file system below kubepods.slice. It writes nothing: what has a systemd unit is
// changed through systemd, which would overwrite it otherwise.
package cgroupfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Mount is where the unified hierarchy is mounted on a node that systemd runs.
const Mount = "/sys/fs/cgroup"

// FS is a mounted cgroup v2 hierarchy, or a folder that looks like one.
type FS string

// errNoFile says that a cgroup has no such file, or is gone.
var errNoFile = fs.ErrNotExist

// read returns the text of a file of a cgroup without the final newline.
func (f FS) read(cgroup, name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(string(f), cgroup, name))
	if err != nil {
		return "", gone(err)
	}
	return strings.TrimSuffix(string(data), "\n"), nil
}

// Path is where the cgroup at path is in the file system.
func (f FS) Path(cgroup string) string { return filepath.Join(string(f), cgroup) }

func (f FS) exists(cgroup string) error {
	_, err := os.Lstat(filepath.Join(string(f), cgroup))
	return err
}

// gone makes ENODEV, which reading a file of a removed cgroup gives when it was opened before (kernfs_fop_read_iter),
// the fs.ErrNotExist that opening it afterwards gives.
func gone(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) && errors.Is(path.Err, unix.ENODEV) {
		return &fs.PathError{Op: path.Op, Path: path.Path, Err: fs.ErrNotExist}
	}
	return err
}
