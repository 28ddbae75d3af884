package systemd

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Notify sends a message to the systemd that has started this process (sd_notify(3)). It returns
// after a second at most, also if systemd does not read. The sd_notify of go-systemd 22.7.0 would
// wait. Without systemd it does nothing.
func Notify(state string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(socket)
		err = unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 1})
	}
	if err == nil {
		err = unix.Sendmsg(socket, []byte(state), nil, &unix.SockaddrUnix{Name: path}, 0)
	}
	if err != nil {
		return fmt.Errorf("notifying systemd at %s: %w", path, err)
	}
	return nil
}
