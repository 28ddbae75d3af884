package daemon

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestListen: the file appears when the socket answers, with its mode: by a rename, not by bind(2).
// It goes with the socket, and what was left from a run that was killed is replaced.
func TestListen(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "control") // a path that is short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "control")
	for _, left := range []string{path, path + ".new"} {
		if err := os.WriteFile(left, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	events, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(events) }()
	if _, err := unix.InotifyAddWatch(events, dir, unix.IN_CREATE|unix.IN_MOVED_TO); err != nil {
		t.Fatal(err)
	}
	socket, err := listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 4096)
	n, err := unix.Read(events, buffer)
	if err != nil {
		t.Fatal(err)
	}
	for seen := buffer[:n]; len(seen) > 0; {
		mask, length := binary.NativeEndian.Uint32(seen[4:]), binary.NativeEndian.Uint32(seen[12:])
		name := strings.TrimRight(string(seen[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+length]), "\x00")
		if name == "control" && mask&unix.IN_MOVED_TO == 0 {
			t.Errorf("%s was created before it could answer (events %#x)", name, mask)
		}
		seen = seen[unix.SizeofInotifyEvent+length:]
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v; want a socket for root alone", info, err)
	}
	if err := socket.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v, %v are left", left, err)
	}
}
