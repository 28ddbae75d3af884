package systemd

import (
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestNotifyFullSocket: no caller waits for a systemd that does not read, and whose socket is full.
// Not parallel, because it sets the environment.
func TestNotifyFullSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	begin := time.Now()
	for err == nil {
		err = Notify("STATUS=x")
	}
	if !errors.Is(err, unix.EAGAIN) || time.Since(begin) > 30*time.Second {
		t.Errorf("%v after %s", err, time.Since(begin))
	}
	if _, err := manager.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if err := Notify("READY=1"); err != nil {
		t.Errorf("with room: %v", err)
	}
}
