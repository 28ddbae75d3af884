package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// IsSocket reports whether path is a socket, which a server that has ended may have left.
func IsSocket(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&os.ModeSocket != 0
}

// Served returns nil where a process has a stream socket open, and does not connect to it: containerd logs an error for who does and registers no NRI plugin.
// A datagram socket cannot connect to it, and is told so where there is one to connect to (unix_find_bsd, net/unix/af_unix.c of the kernel).
func Served(ctx context.Context, socket string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unixgram", socket)
	if errors.Is(err, unix.EPROTOTYPE) {
		return nil
	}
	if err == nil {
		return errors.Join(fmt.Errorf("%s: a datagram socket", socket), conn.Close())
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		failed.Net = "unix"
	}
	return err
}
