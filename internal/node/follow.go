package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// creation waits until a file, or the first missing folder on the way to it, is created
// (inotify(7)).
type creation struct {
	events *os.File
	name   string // the first missing element, or the file itself
}

// created are the events of a name that is new in a folder.
const created = unix.IN_CREATE | unix.IN_MOVED_TO

// watch begins to watch for the creation of path, which may exist already.
func watch(path string) (*creation, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	events := os.NewFile(uintptr(fd), "inotify")
	for missing := path; ; {
		dir := filepath.Dir(missing)
		_, err := unix.InotifyAddWatch(fd, dir, created|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_ONLYDIR)
		switch {
		case errors.Is(err, fs.ErrNotExist) && dir != "/":
			missing = dir
			continue
		case err != nil:
			_ = events.Close() // nothing was read
			return nil, &fs.PathError{Op: "watch", Path: dir, Err: err}
		}
		//guard: a folder that is made before its parent is watched is not missed
		if missing == path || !exists(missing) {
			return &creation{events, filepath.Base(missing)}, nil
		}
		missing = path // the folder was made before its parent was watched
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (c *creation) close() { _ = c.events.Close() } // it is only read

// wait returns nil when the file was created, its folder is gone, or longest is over, and the cause
// of the end of ctx otherwise.
func (c *creation) wait(ctx context.Context, longest time.Duration) error {
	if err := c.events.SetReadDeadline(time.Now().Add(longest)); err != nil {
		return fmt.Errorf("inotify: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.events.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buffer := make([]byte, 4096)
	for {
		n, err := c.events.Read(buffer)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return fmt.Errorf("inotify: %w", err)
		case c.among(buffer[:n]):
			return nil
		}
	}
}

// among reports whether events are about the file, or about the folder itself.
func (c *creation) among(events []byte) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		mask := binary.NativeEndian.Uint32(events[4:])
		end := min(unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(events[12:])), len(events))
		name := strings.TrimRight(string(events[unix.SizeofInotifyEvent:end]), "\x00")
		if name == c.name || mask&created == 0 {
			return true
		}
		events = events[end:]
	}
	return false
}
