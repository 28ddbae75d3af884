package host

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	securejoin "github.com/cyphar/filepath-securejoin"
)

// This file reads files of the node below one root, with bounds.
//
// A systemd generator runs inside the boot: a file that never ends, a FIFO without a writer or a
// directory of a million entries must be an error, not a boot that hangs. The generator reads
// everything through this package, so that one root (PARTITION_ROOT) turns a folder into a node.

// Root is the root below which a node's files are read. The empty string and "/" are the node
// itself.
type Root string

// Sentinel errors, wrapped with the path that caused them.
var (
	// ErrTooLarge is returned for a file above the caller's limit.
	ErrTooLarge = errors.New("too large")
	// errNotRegular is returned for a FIFO, a device, a socket or a directory where a file is wanted.
	errNotRegular = errors.New("not a regular file")
)

// Path returns the path of name on the machine that runs us. Inside a root other than "/", it
// follows symbolic links as if that root were "/", as chroot(2) would.
func (f Root) Path(name string) (string, error) {
	if f == "" || f == "/" {
		return name, nil
	}
	path, err := securejoin.SecureJoin(string(f), name)
	if err != nil {
		return "", fmt.Errorf("%s: below %s: %w", name, string(f), err)
	}
	return path, nil
}

// ReadFile returns the content of the regular file name, at most limit bytes of it. It returns
// ErrTooLarge for a larger file, and errNotRegular for anything that is not a regular file. It
// never blocks in open(2).
func (f Root) ReadFile(name string, limit int64) ([]byte, error) {
	file, info, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info.Size() > limit {
		return nil, tooLarge(name, limit)
	}
	// The size of a file in /proc or /sys is 0 or a page, whatever it holds, so the limit counts while
	// reading.
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, inNode(name, err)
	}
	if int64(len(data)) > limit {
		return nil, tooLarge(name, limit)
	}
	return data, nil
}

func (f Root) open(name string) (*os.File, fs.FileInfo, error) {
	path, err := f.Path(name)
	if err != nil {
		return nil, nil, err
	}
	// stat(2) before open(2): opening a device can have effects (a watchdog starts, a tape rewinds).
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, inNode(name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: %w (%s)", name, errNotRegular, kind(info.Mode()))
	}
	// O_NONBLOCK: the file may have become a FIFO since.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, inNode(name, err)
	}
	if info, err = file.Stat(); err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w (%s)", errNotRegular, kind(info.Mode()))
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, inNode(name, err)
	}
	return file, info, nil
}

// Exists reports whether name exists, of whatever type. It follows links.
func (f Root) Exists(name string) bool {
	path, err := f.Path(name)
	if err != nil {
		return false
	}
	_, err = os.Stat(path)
	return err == nil
}

// ReadDir returns the entries of the directory name, sorted by name as filepath.WalkDir sorts them.
// It returns ErrTooLarge for a directory with more than limit entries.
func (f Root) ReadDir(name string, limit int) ([]fs.DirEntry, error) {
	entries, err := list(f, name, limit, (*os.File).ReadDir)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, err
}

// Names returns the names in the directory name, in no order. It returns ErrTooLarge for a
// directory with more than limit entries.
func (f Root) Names(name string, limit int) ([]string, error) {
	return list(f, name, limit, (*os.File).Readdirnames)
}

// list reads a directory, as far as read does, within the limit.
func list[T any](f Root, name string, limit int, read func(*os.File, int) ([]T, error)) ([]T, error) {
	path, err := f.Path(name)
	if err != nil {
		return nil, err
	}
	dir, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, inNode(name, err)
	}
	defer dir.Close()
	entries, err := read(dir, limit+1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, inNode(name, err)
	}
	if len(entries) > limit {
		return nil, fmt.Errorf("%s: %w: more than %d entries", name, ErrTooLarge, limit)
	}
	return entries, nil
}

// Lstat calls lstat(2) for name. It follows links on the way, but not the last component.
func (f Root) Lstat(name string) (fs.FileInfo, error) {
	dir, err := f.Path(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(filepath.Join(dir, filepath.Base(name)))
	if err != nil {
		return nil, inNode(name, err)
	}
	return info, nil
}

// Readlink returns the target of the symbolic link name. It follows links on the way, but not the
// last component.
func (f Root) Readlink(name string) (string, error) {
	dir, err := f.Path(filepath.Dir(name))
	if err != nil {
		return "", err
	}
	target, err := os.Readlink(filepath.Join(dir, filepath.Base(name)))
	if err != nil {
		return "", inNode(name, err)
	}
	return target, nil
}

// inNode returns err with the file's name on the node, without the root. It keeps the cause for
// errors.Is.
func inNode(name string, err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	if errors.Is(err, syscall.ENOTDIR) {
		// A parent of the file is itself a file, so the name does not exist. /etc/kubernetes/kubelet, for
		// one, is a folder with some distributions, and a file of environment variables with others.
		err = fs.ErrNotExist
	}
	return fmt.Errorf("%s: %w", name, err)
}

func tooLarge(name string, limit int64) error {
	return fmt.Errorf("%s: %w: more than %d bytes", name, ErrTooLarge, limit)
}

func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	default:
		return mode.Type().String()
	}
}
