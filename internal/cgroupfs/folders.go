package cgroupfs

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Folders keeps the folders of cgroups open for a reader of many cgroups that are in few of them,
// as the pods of a partition are. The kernel looks up a path in kernfs component by component, and
// checks each under a lock (kernfs_dop_revalidate, fs/kernfs/dir.c).
//
// A folder that was removed stays open, and the cgroups in it are missing, even if there are others
// by their paths. So Folders is for one round of reading.
type Folders struct {
	root FS
	// open has the descriptors by path. It is notOpen for a folder that cannot be opened.
	open map[string]int
}

// Folders returns no open folders. Close closes those that it will open.
func (f FS) Folders() *Folders { return &Folders{root: f, open: map[string]int{}} }

// Usage reads a cgroup as FS.Usage does.
func (d *Folders) Usage(path string) (Usage, error) {
	folder, name := filepath.Split(path)
	dir, ok := d.open[folder]
	if !ok {
		dir, _ = d.root.openFolder(folder) // notOpen with an error
		d.open[folder] = dir
	}
	if dir == notOpen {
		return d.root.Usage(path)
	}
	return usage(&files{root: d.root, cgroup: path, dir: dir, below: name})
}

// Close closes the folders.
func (d *Folders) Close() {
	for _, dir := range d.open {
		if dir != notOpen {
			_ = unix.Close(dir) // an O_PATH descriptor
		}
	}
	clear(d.open)
}
