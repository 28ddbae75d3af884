package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"time"
)

// readyPattern is the request that is answered when the partition is active and its pods are
// managed.
const readyPattern = "GET /ready"

func answerReady(ctx context.Context, w http.ResponseWriter, ready Readiness) {
	if !patient(w) {
		return
	}
	if err := ready.AwaitReady(ctx); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ready") // the client may have disconnected
}

// askAgain bounds the time between two requests to a service that neither answers nor comes back.
const askAgain = 30 * time.Second

// AwaitReady returns nil when the service answers that the partition is active and its pods are
// managed. If the service is not running, it waits until its socket is created. It returns the
// cause of the end of ctx, and an error at once without the right to open the socket.
func AwaitReady(ctx context.Context, socket string) error { return awaitReady(ctx, socket, askAgain) }

func awaitReady(ctx context.Context, socket string, again time.Duration) error {
	for {
		socketMade, err := watch(socket) // first, so that no socket is missed
		if err != nil {
			return err
		}
		err = askReady(ctx, socket)
		if err == nil || ctx.Err() != nil || errors.Is(err, fs.ErrPermission) {
			socketMade.close()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		err = socketMade.wait(ctx, again)
		socketMade.close()
		if err != nil {
			return err
		}
	}
}

func askReady(ctx context.Context, socket string) error {
	client := overSocket(socket)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://partition-monitor/ready", http.NoBody)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; it has to run as root", err)
	}
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(string(text)))
	}
	return nil
}

// overSocket returns a client that connects to a socket for each request.
func overSocket(socket string) *http.Client {
	return &http.Client{
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		}, DisableKeepAlives: true},
	}
}
