package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// IsSocket reports whether path is a socket. A server that has ended may have left it.
func IsSocket(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&os.ModeSocket != 0
}

// Served returns nil if a process listens on a stream socket. It does not connect, because
// containerd logs an error for a connection that registers no NRI plugin. A datagram socket cannot
// connect to a stream socket. The error is EPROTOTYPE for a socket that is served, and ECONNREFUSED
// for one that is left over (unix_find_bsd, net/unix/af_unix.c of the kernel).
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
