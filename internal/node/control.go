package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"

	"node-partition.io/node-partition/pkg/slices/config"
)

// ControlSocket is the path at which the service accepts requests of an operator. Only root may
// open it. Metrics and health, which any process may query, have a separate port.
const ControlSocket = config.StateDir + "/monitor/control"

// The requests that the service answers, as patterns of http.ServeMux.
const (
	// MovePattern moves one pod. The response is sent when the pod is in its place.
	MovePattern = "POST /move/{namespace}/{name}"
	// ReadyPattern is answered when the partition is active and its pods are managed.
	ReadyPattern = "GET /ready"
	// ListeningPattern is answered at once: with 200, or with why metrics and health are not served.
	ListeningPattern = "GET /listening"
)

// ControlHost is the host that requests over the socket address.
const ControlHost = "partition-monitor"

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

// maxAnswer bounds a response of the service. A thousand pods take half a megabyte.
const maxAnswer = 8 << 20

// askService sends a request by a connection of its own, and reads the response.
func askService(
	ctx context.Context, by *http.Transport, method, host, path string,
) (status int, text []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+host+path, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	answer, err := (&http.Client{Transport: by}).Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	return answer.StatusCode, text, err
}
