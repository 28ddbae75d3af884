package installer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/installer/record"
)

// Disk changes files below a root, each by one step that is complete or has not happened. A process
// may be killed between any two steps.
type Disk struct {
	// Root is the root of the names that the methods take.
	Root host.Root
	// Step is called before each change, with what it is about to do; nil for none. A test ends the
	// program there.
	Step func(what string)
	// Sync writes a file, or the names in a folder, to disk; nil for fsync(2). A test counts, and has
	// no disk that is as slow.
	Sync func(*os.File) error
}

func (d Disk) step(what, name string) {
	if d.Step != nil {
		d.Step(what + " " + name)
	}
}

// path returns the path of name on this machine. It does not follow a link at the last component.
func (d Disk) path(name string) (string, error) {
	dir, err := d.Root.Path(filepath.Dir(name))
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(name)), nil
}

// temporary returns the name under which a file is written before it is complete. systemd ignores
// hidden files in the folders of units and of generators (hidden_or_backup_file,
// src/basic/path-util.c, 252).
func temporary(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".installing")
}

// Write replaces the file name by what from has, with a mode: under another name, synced to disk,
// and then by a rename, which is synced, too. The folder has to exist.
func (d Disk) Write(name string, from io.Reader, mode fs.FileMode) error {
	path, err := d.path(name)
	if err != nil {
		return err
	}
	other := temporary(path)
	d.step("write", temporary(name))
	if err := d.writeSynced(other, from, mode); err != nil {
		_ = os.Remove(other) // where there is one
		return err
	}
	d.step("rename to", name)
	if err := os.Rename(other, path); err != nil {
		_ = os.Remove(other)
		return err
	}
	//guard: the rename of a file that is installed is on disk
	return d.syncFolder(filepath.Dir(path))
}

func (d Disk) writeSynced(path string, from io.Reader, mode fs.FileMode) error {
	// Without O_NOFOLLOW, a link that somebody has put there would lead the write elsewhere.
	//guard: a link at the temporary name of a file is not followed
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	if err == nil {
		err = file.Chmod(mode.Perm())
	}
	//guard: a file that is installed is on disk before the rename
	if err == nil {
		err = d.sync(file)
	}
	return errors.Join(err, file.Close())
}

// WriteBytes is Write for data.
func (d Disk) WriteBytes(name string, data []byte, mode fs.FileMode) error {
	return d.Write(name, bytes.NewReader(data), mode)
}

// Link makes a symbolic link, or replaces the one that is there by a rename. It does nothing if the
// link is there.
func (d Disk) Link(target, name string) error {
	if has, err := d.Root.Readlink(name); err == nil && has == target {
		return nil
	}
	if err := d.Tidy(name); err != nil {
		return err
	}
	path, err := d.path(name)
	if err != nil {
		return err
	}
	d.step("link", temporary(name))
	if err := os.Symlink(target, temporary(path)); err != nil {
		return err
	}
	d.step("rename to", name)
	if err := os.Rename(temporary(path), path); err != nil {
		return err
	}
	return d.syncFolder(filepath.Dir(path))
}

// RemoveEmpty removes a folder, unless there is none, or it is used.
func (d Disk) RemoveEmpty(name string) {
	if path, err := d.path(name); err == nil {
		_ = unix.Rmdir(path)
	}
}

// Remove removes a file, and one that was not complete. It does nothing without one.
func (d Disk) Remove(name string) error {
	path, err := d.path(name)
	if err != nil {
		return err
	}
	for _, p := range []string{temporary(path), path} {
		if _, err := os.Lstat(p); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			continue
		}
		d.step("remove", name)
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := d.syncFolder(filepath.Dir(p)); err != nil {
			return err
		}
	}
	return nil
}

// Tidy removes a file that was not complete.
func (d Disk) Tidy(name string) error {
	path, err := d.path(name)
	if err != nil {
		return err
	}
	other := temporary(path)
	if _, err := os.Lstat(other); err != nil {
		return nil //nolint:nilerr // there is none
	}
	d.step("remove", temporary(name))
	return os.Remove(other)
}

// RemoveTree removes a folder with all that is in it.
func (d Disk) RemoveTree(name string) error {
	path, err := d.path(name)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	d.step("remove", name)
	return os.RemoveAll(path)
}

// Mkdir makes a folder and those above it, each with the mode: the umask of a service may be
// narrower.
func (d Disk) Mkdir(name string, mode fs.FileMode) error {
	if d.IsFolder(name) {
		return nil
	}
	if err := d.Mkdir(filepath.Dir(name), mode); err != nil {
		return err
	}
	path, err := d.path(name)
	if err != nil {
		return err
	}
	d.step("mkdir", name)
	if err := os.Mkdir(path, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// Present returns what is at a path. It does not follow a link at its end.
func (d Disk) Present(name string) (record.Present, error) {
	info, err := d.Root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return record.Present{}, nil
	}
	if err != nil {
		return record.Present{}, err
	}
	if !info.Mode().IsRegular() {
		is := record.Present{Exists: true, Kind: kind(info)}
		is.Link, _ = d.Root.Readlink(name) // where it is one
		return is, nil
	}
	path, err := d.path(name)
	if err != nil {
		return record.Present{}, err
	}
	sum, err := digestFile(path)
	return record.Present{Exists: true, Mode: info.Mode().Perm(), SHA256: sum}, err
}

func kind(info fs.FileInfo) string {
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		return "a link"
	case mode.IsDir():
		return "a folder"
	}
	return "not a regular file"
}

// IsFolder reports whether a folder exists. It follows links.
func (d Disk) IsFolder(name string) bool {
	path, err := d.Root.Path(name)
	if err != nil {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func digestFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// Copy copies a program of this machine to a name, unless it is there.
func (d Disk) Copy(program, name string) error {
	sum, err := digestFile(program)
	if err != nil {
		return err
	}
	is, err := d.Present(name)
	if err != nil || is == (record.Present{Exists: true, Mode: 0o755, SHA256: sum}) {
		return err
	}
	file, err := os.Open(program)
	if err != nil {
		return err
	}
	defer file.Close()
	return d.Write(name, file, 0o755)
}

// Digest returns the SHA-256 of data in hexadecimal.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// syncFolder writes the names in a folder to disk.
func (d Disk) syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.sync(folder), folder.Close())
}

func (d Disk) sync(file *os.File) error {
	if d.Sync != nil {
		return d.Sync(file)
	}
	return file.Sync()
}
