package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"time"

	"node-partition.io/node-partition/internal/state"
)

// Service is the running service, which answers queries over its socket and at an address.
type Service struct {
	// Socket is the path of the socket, which only root may open. Root asks nothing else: while the
	// service does not run, any account may listen at the address and answer for it.
	Socket string
	// Listen is the address of metrics and health, for other accounts; empty if there is none.
	Listen string
}

// LastReport queries the service for the state of the node as it knows it: by its last reconcile,
// and with the usage of the last minutes. It returns an empty one if the service does not answer.
func (s Service) LastReport(ctx context.Context) state.Status {
	status, text, _, err := s.get(ctx, "/report")
	var report state.Status
	if err != nil || status != http.StatusOK || json.Unmarshal(text, &report) != nil {
		return state.Status{}
	}
	return report
}

// Ready asks the service whether it is ready, and returns "ready" or why it is not. It says so if
// the answer may be somebody else's.
func (s Service) Ready(ctx context.Context) string {
	status, text, proven, err := s.get(ctx, "/readyz")
	var refused *net.OpError
	switch {
	case errors.As(err, &refused):
		return "not running (" + refused.Error() + "); see systemctl status partition-monitor.service"
	case err != nil:
		return err.Error()
	case status == http.StatusOK && !proven:
		return "ready, says whoever listens at " + s.Listen + "; run this as root to ask the service"
	case status == http.StatusOK:
		return "ready"
	}
	return "not ready: " + strings.TrimSpace(string(text))
}

// Listening returns why the service does not serve metrics and health, nil if it does. Without the
// right to open the socket it returns nil.
func (s Service) Listening(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_, answered, err := request(ctx, s.Socket, http.MethodGet, "/listening")
	if !answered {
		return nil
	}
	return err
}

// Metrics returns the page of metrics of the service.
func (s Service) Metrics(ctx context.Context) (string, error) {
	status, page, _, err := s.get(ctx, "/metrics")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("metrics: status %d", status)
	}
	return string(page), err
}

// answerTimeout bounds a request to the service.
const answerTimeout = 2 * time.Second

// errNoService means that the service does not listen.
var errNoService = errors.New("not queried: --listen has no address")

// errProtected means that the address asks for TLS or a password, which commands do not have.
var errProtected = errors.New("not queried: the address asks for TLS or a password; run this as root")

// get sends a request to the service: over its socket, or at the address of its flag --listen if
// the caller may not open the socket. proven means that the service has answered, and no other
// program.
func (s Service) get(ctx context.Context, path string) (status int, text []byte, proven bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	status, text, err = askService(ctx, overSocket(s.Socket), http.MethodGet, ControlHost, path)
	//guard: root believes nobody at the address of a service that does not run
	if !errors.Is(err, fs.ErrPermission) {
		return status, text, true, err
	}
	host, port, err := net.SplitHostPort(s.Listen)
	if err != nil {
		return 0, nil, false, errNoService
	}
	address := s.Listen
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	// The default client would ask the proxy of the environment for a host that is not a loopback
	// address, and the service is on this node.
	status, text, err = askService(ctx, &http.Transport{DisableKeepAlives: true}, http.MethodGet, address, path)
	if err == nil && (status == http.StatusBadRequest || status == http.StatusUnauthorized) {
		err = errProtected
	}
	return status, text, false, err
}
