package livemove

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/cgroups"
)

// folder reads many small files of one directory, with three system calls each. os.ReadFile needs
// nine for a file of a cgroup: it also reads the size, registers the file with the poller and
// unregisters it, and reads once more to find the end (Go 1.26).
type folder struct {
	name   string
	fd     int
	buffer [4096]byte
}

func openFolder(name string) (*folder, error) {
	fd, err := cgroups.Uninterrupted(
		func() (int, error) { return unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) },
	)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &folder{name: name, fd: fd}, nil
}

func (f *folder) close() { _ = unix.Close(f.fd) } // of an O_PATH descriptor

// read returns the text of a file. The kernel returns as much of it at once as the buffer holds
// (seq_read_iter, fs/seq_file.c).
func (f *folder) read(name string) (string, error) {
	n, err := cgroups.ReadAt(f.fd, name, f.buffer[:])
	if err != nil {
		return "", &fs.PathError{Op: "read", Path: filepath.Join(f.name, name), Err: err}
	}
	text := string(f.buffer[:n])
	if n == len(f.buffer) {
		// io.max with a line for each of many devices.
		all, err := os.ReadFile(filepath.Join(f.name, name))
		if err != nil {
			return "", err
		}
		text = string(all)
	}
	return strings.TrimSpace(text), nil
}
