package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"strings"
)

// request sends a request over the socket of the service, by a new connection, and returns
// the text of the response. A refusal is an error with that text. answered means that the service
// has responded. Without the right to open the socket the error is fs.ErrPermission.
func request(ctx context.Context, socket, method, path string) (text string, answered bool, err error) {
	status, data, err := askService(ctx, overSocket(socket), method, ControlHost, path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "", false, fmt.Errorf("%w; it has to run as root", err)
	case err != nil:
		return "", status != 0, err
	case status != http.StatusOK:
		return "", true, errors.New(strings.TrimSpace(string(data)))
	}
	return string(data), true, nil
}

// overSocket opens a connection to a socket for each request.
func overSocket(path string) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}, DisableKeepAlives: true}
}
