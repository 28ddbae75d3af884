package cgroupfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Children returns the names of the cgroups directly below one, sorted. A cgroup that is gone has none.
//
// It reads the entries itself: a cgroup has some sixty files, and os.ReadDir makes an object and a string of each of them.
func (f FS) Children(cgroup string) ([]string, error) {
	path := filepath.Join(string(f), cgroup)
	dir, err := Uninterrupted(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(dir)
	var names []string
	buffer := make([]byte, entriesSize)
	for {
		n, err := Uninterrupted(func() (int, error) { return unix.Getdents(dir, buffer) })
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) || err == nil && n == 0 {
			slices.Sort(names)
			return names, nil // removed meanwhile, or the end
		}
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		names = appendFolders(names, buffer[:n])
	}
}

const (
	// entriesSize is room for the entries of a cgroup: sixty files with forty bytes each.
	entriesSize = 4 << 10
	// Offsets in struct linux_dirent64 (include/linux/dirent.h).
	entryLength, entryType, entryName = 16, 18, 19
)

// appendFolders adds the names of the directories among the entries that getdents64 gave, but for "." and "..". The kernel's kernfs and
// tmpfs say which entries are directories.
func appendFolders(names []string, entries []byte) []string {
	for len(entries) > entryName {
		length := int(binary.NativeEndian.Uint16(entries[entryLength:]))
		if length <= entryName || length > len(entries) {
			break
		}
		if entries[entryType] == unix.DT_DIR {
			name, _, _ := bytes.Cut(entries[entryName:length], []byte{0})
			if text := string(name); text != "." && text != ".." {
				names = append(names, text)
			}
		}
		entries = entries[length:]
	}
	return names
}

// HasChildren reports whether there are cgroups below one. A directory's links are its name, its "." and the ".." of each
// directory in it (simple_rmdir and kernfs keep nlink so); reading the directory would go through its sixty files.
func (f FS) HasChildren(cgroup string) (bool, error) {
	info, err := os.Lstat(filepath.Join(string(f), cgroup))
	if err != nil {
		return false, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink > 2, nil
}

// Populated reports whether there is a process in the cgroup or below it (cgroup.events). A cgroup that is gone is not.
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

// CPUWeight reads cpu.weight, 1 to 10000.
func (f FS) CPUWeight(cgroup string) (uint64, error) { return f.number(cgroup, "cpu.weight") }

// MemoryCurrent reads memory.current in bytes.
func (f FS) MemoryCurrent(cgroup string) (uint64, error) { return f.number(cgroup, "memory.current") }

func (f FS) number(cgroup, name string) (uint64, error) {
	text, err := f.read(cgroup, name)
	if err != nil {
		return 0, err
	}
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Join(string(f), cgroup, name), err)
	}
	return value, nil
}
