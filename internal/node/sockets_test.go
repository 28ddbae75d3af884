package node

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestServed: the server does not notice the check.
func TestServed(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "nri.sock")
	if err := Served(t.Context(), socket); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "dial unix "+socket) {
		t.Errorf("without a socket: %v", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	if err := Served(t.Context(), socket); err != nil {
		t.Errorf("served: %v", err)
	}
	ours, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	if _, err := io.WriteString(ours, "ours"); err != nil {
		t.Fatal(err)
	}
	first, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	text := make([]byte, len("ours"))
	if _, err := io.ReadFull(first, text); err != nil || string(text) != "ours" {
		t.Errorf("somebody has connected before us: %q, %v", text, err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Served(t.Context(), socket); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("left over: %v", err)
	}
}
