package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Children returns the names of the cgroups directly below one, sorted. It returns none for a
// cgroup that is gone.
func (f FS) Children(cgroup string) ([]string, error) {
	path := filepath.Join(string(f), cgroup)
	fd, err := Uninterrupted(func() (int, error) { return f.open(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_DIRECTORY) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	dir := os.NewFile(uintptr(fd), path)
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	// A cgroup that is removed meanwhile ends the list.
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	slices.Sort(names) // os.ReadDir would also sort the sixty files of a cgroup
	return names, nil
}

// HasChildren reports whether there are cgroups below one. The links of a directory are its name,
// its "." and the ".." of each directory in it (simple_rmdir and kernfs keep nlink so). Reading the
// directory would read its sixty files, too.
func (f FS) HasChildren(cgroup string) (bool, error) {
	stat, err := f.stat(cgroup)
	return err == nil && stat.Nlink > 2, err
}

// Populated reports whether there is a process in the cgroup or below it (cgroup.events). It
// returns false for a cgroup that is gone.
func (f FS) Populated(cgroup string) (bool, error) {
	text, err := f.read(cgroup, "cgroup.events")
	if err != nil {
		if os.IsNotExist(err) {
			return false, nil
		}
		return false, err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "populated "); ok {
			return value != "0", nil
		}
	}
	return false, fmt.Errorf("%s: no line populated", filepath.Join(string(f), cgroup, "cgroup.events"))
}

// MemoryCurrent reads memory.current in bytes.
func (f FS) MemoryCurrent(cgroup string) (uint64, error) { return f.number(cgroup, "memory.current") }

// MemoryMax reads memory.max in bytes, Unlimited for none.
func (f FS) MemoryMax(cgroup string) (uint64, error) { return f.number(cgroup, "memory.max") }

// MemoryPeak reads memory.peak in bytes (Linux 5.19): the largest value of memory.current since the
// cgroup was created.
func (f FS) MemoryPeak(cgroup string) (uint64, error) { return f.number(cgroup, "memory.peak") }

// Reclaim has the kernel take back so many bytes from a cgroup (memory.reclaim, Linux 5.19). It
// returns when the kernel has, or has found less: EAGAIN.
func (f FS) Reclaim(cgroup string, bytes uint64) error {
	name := filepath.Join(f.Path(cgroup), "memory.reclaim")
	fd, err := Uninterrupted(func() (int, error) { return f.open(unix.AT_FDCWD, name, unix.O_WRONLY) })
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	// Not by an os.File, which would wait after EAGAIN until the file is writable: for ever.
	_, err = Uninterrupted(func() (int, error) { return unix.Write(fd, strconv.AppendUint(nil, bytes, 10)) })
	return errors.Join(err, unix.Close(fd))
}

// SwapCurrent reads memory.swap.current in bytes. A kernel without swap has no such file.
func (f FS) SwapCurrent(cgroup string) (uint64, error) {
	return f.number(cgroup, "memory.swap.current")
}

// number reads a file with a number or "max".
func (f FS) number(cgroup, name string) (uint64, error) {
	text, err := f.read(cgroup, name)
	if err != nil {
		return 0, err
	}
	value, err := parseMax(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Join(string(f), cgroup, name), err)
	}
	return value, nil
}
