package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
)

// Node is a node that is read: the running one, or one whose files are below a folder.
type Node struct {
	// Root is the root directory.
	Root Root
	// Cgroups is the mount of the cgroups.
	Cgroups cgroups.FS
	// Proc is the mount point of procfs.
	Proc string
	// Systemd holds the programs of systemd.
	Systemd Programs
	// Foreign means that the files belong to another node: a mounted disk, or an unpacked sosreport.
	// Its systemd, its kubelet and its runtime do not answer here.
	Foreign bool
}

// The places of the running node.
const (
	root = "/"
	proc = "/proc"
)

// This returns the running node.
func This() Node { return Node{Root: root, Cgroups: cgroups.Mount, Proc: proc} }

// Below returns the node whose files are below dir. It answers like the running one: a test has
// sockets there.
func Below(dir string) Node {
	n := Node{Root: Root(dir)}
	n.Cgroups, n.Proc = cgroups.FS(n.Path(cgroups.Mount)), n.Path(proc)
	return n
}

// Open returns the node of another machine whose files are below dir.
func Open(dir string) (Node, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Node{}, err
	}
	// The cgroups are opened without following a link, also on the way to them.
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return Node{}, err
	}
	if dir == root {
		return This(), nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return Node{}, err
	}
	if !info.IsDir() {
		return Node{}, fmt.Errorf("%s: not a directory", dir)
	}
	n := Below(dir)
	n.Foreign = true
	return n, n.special()
}

// special returns an error if there is a device or a FIFO among the cgroups: to open a device may
// have an effect.
func (n Node) special() error {
	return filepath.WalkDir(string(n.Cgroups), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !entry.Type().IsRegular() && entry.Type() != fs.ModeSymlink {
			return &fs.PathError{Op: "open", Path: path, Err: errors.New("not a file of a cgroup; remove it")}
		}
		return nil // what cannot be read is not opened either
	})
}

// nowhere is a path that no file has: the name of a file has no NUL.
const nowhere = "\x00"

// Path returns the path of name on the machine that runs us. A name whose links lead nowhere has a
// path that cannot be opened: the file of that name on this machine belongs to another node.
func (n Node) Path(name string) string {
	path, err := n.Root.Path(name)
	if err != nil {
		return nowhere
	}
	return path
}

// Endpoint returns the endpoint of a service whose socket is at a path, or at a URL with the scheme
// unix. It returns others as they are.
func (n Node) Endpoint(endpoint string) string {
	const scheme = "unix://"
	switch path, isURL := strings.CutPrefix(endpoint, scheme); {
	case isURL:
		return scheme + n.Path(path)
	case filepath.IsAbs(endpoint):
		return n.Path(endpoint)
	}
	return endpoint
}

// ErrNotQueried means that a service of the node was not asked, because the node is another one.
var ErrNotQueried = errors.New("not queried: --root is another node's")

// Answers returns ErrNotQueried if the services of the node do not answer here, and nil if they do.
func (n Node) Answers() error {
	if n.Foreign {
		return ErrNotQueried
	}
	return nil
}

// NoCgroups returns an error if the files of another node have no cgroups of pods. A disk has none,
// and a sosreport has some. Without this error they would seem to be inactive.
func (n Node) NoCgroups() error {
	if !n.Foreign {
		return nil
	}
	if err := n.Cgroups.Exists(partition.Default.Slice()); err != nil {
		return fmt.Errorf("cgroups: not among the files of --root: %w", err)
	}
	return nil
}
