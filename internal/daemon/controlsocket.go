package daemon

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
)

// socket is a listener at a path that appears when it answers.
type socket struct {
	net.Listener
	path string
}

// listen makes the socket under another name and renames it: bind(2) creates the file, listen(2)
// comes after that, and a client would be refused in between. The same keeps others from a socket
// without its mode.
func listen(ctx context.Context, path string) (*socket, error) {
	//guard: the control socket appears when it answers
	made := path + ".new"
	for _, left := range []string{made, path} {
		if err := os.Remove(left); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "unix", made)
	if err != nil {
		return nil, err
	}
	if unix, ok := listener.(*net.UnixListener); ok {
		unix.SetUnlinkOnClose(false) // it would remove the former name
	}
	err = os.Chmod(made, 0o600)
	if err == nil {
		err = os.Rename(made, path)
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close(), os.Remove(made))
	}
	return &socket{listener, path}, nil
}

// Close removes the file first: who finds none asks again.
func (s *socket) Close() error {
	err := os.Remove(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, s.Listener.Close())
}
