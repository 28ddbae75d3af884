package node_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/daemon"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/pkg/podmove"
)

// oneMove implements Mover by a function.
type oneMove func(ctx context.Context, pod types.NamespacedName) (string, error)

func (m oneMove) MoveNow(ctx context.Context, pod types.NamespacedName) (string, error) {
	return m(ctx, pod)
}

// serve serves a control socket until stop is called or the test ends.
func serve(t *testing.T, pods daemon.Mover) (socket string, stop func() error) {
	t.Helper()
	return serveAt(t, filepath.Join(t.TempDir(), "control"), pods, nil)
}

func serveAt(t *testing.T, path string, pods daemon.Mover, ready daemon.Readiness) (socket string, stop func() error) {
	t.Helper()
	return serveRequests(t, path, daemon.Requests{
		Pods: pods, Ready: ready, Listening: func() error { return nil }, Web: http.NotFoundHandler(),
	})
}

func serveRequests(t *testing.T, path string, requests daemon.Requests) (socket string, stop func() error) {
	t.Helper()
	socket = path
	// One is left from a run that was killed.
	if err := os.WriteFile(socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.ServeControl(ctx, socket, requests)
	}()
	t.Cleanup(cancel)
	for {
		if info, err := os.Stat(socket); err == nil && info.Mode().Perm() == 0o600 && info.Mode()&os.ModeSocket != 0 {
			break
		}
		select {
		case err := <-ended:
			t.Fatal(err)
		default:
		}
	}
	return socket, func() error {
		cancel()
		return <-ended
	}
}

var systemAgent = types.NamespacedName{Namespace: "kube-system", Name: "system-agent"}

func TestMoveOverSocket(t *testing.T) {
	t.Parallel()
	pods := oneMove(func(_ context.Context, pod types.NamespacedName) (string, error) {
		switch pod.Name {
		case "gone":
			return "", fmt.Errorf("%s: %w", pod, podmove.ErrNoPod)
		case "stays":
			return "", fmt.Errorf("%w: %s: no-nri: wait", podmove.ErrNotMoved, pod)
		case "fails":
			return "", errors.New("came back in the wrong place")
		}
		return "kubepods-system-pod1.slice", nil
	})
	socket, _ := serve(t, pods)
	slice, err := node.MovePod(t.Context(), socket, systemAgent)
	if err != nil || slice != "kubepods-system-pod1.slice" {
		t.Errorf("answered %q, %v", slice, err)
	}
	for name, want := range map[string]string{"gone": "no such pod", "stays": "not moved: kube-system/stays: no-nri: wait", "fails": "came back in the wrong place"} {
		if _, err := node.MovePod(t.Context(), socket, types.NamespacedName{Namespace: "kube-system", Name: name}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: answered %v, want %q", name, err, want)
		}
	}
}

// TestMoveCancelled: a client that disconnects cancels its request. When the service stops, waiting
// clients get an error with that cause.
func TestMoveCancelled(t *testing.T) {
	t.Parallel()
	begun, cause := make(chan struct{}), make(chan error, 1)
	pods := oneMove(func(ctx context.Context, _ types.NamespacedName) (string, error) {
		begun <- struct{}{}
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return "", fmt.Errorf("%w: %w", podmove.ErrNotMoved, context.Cause(ctx))
	})
	socket, stop := serve(t, pods)
	answer := make(chan error, 1)
	ask := func(ctx context.Context) {
		_, err := node.MovePod(ctx, socket, systemAgent)
		answer <- err
	}
	ctx, cancel := context.WithCancel(t.Context())
	go ask(ctx)
	<-begun
	cancel()
	if err := <-answer; !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if err := <-cause; !errors.Is(err, context.Canceled) {
		t.Errorf("the request of the service was not cancelled: %v", err)
	}
	go ask(t.Context())
	<-begun
	if err := stop(); err != nil {
		t.Errorf("the service ended with %v", err)
	}
	if err := <-answer; err == nil || !strings.Contains(err.Error(), "the service is stopping") {
		t.Errorf("answered %v, want that the service is stopping", err)
	}
	if _, err := node.MovePod(t.Context(), socket, systemAgent); !errors.Is(err, unix.ENOENT) || !strings.Contains(err.Error(), "systemctl status") {
		t.Errorf("after the end: %v", err)
	}
}
