package control

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"nodepartition/pkg/podmove"
)

// oneMove implements Mover by a function.
type oneMove func(ctx context.Context, pod types.NamespacedName) (string, error)

func (m oneMove) MoveNow(ctx context.Context, pod types.NamespacedName) (string, error) {
	return m(ctx, pod)
}

// control serves a control socket until stop is called or the test ends.
func control(t *testing.T, pods Mover) (socket string, stop func() error) {
	t.Helper()
	return controlAt(t, filepath.Join(t.TempDir(), "control"), pods, nil)
}

func controlAt(t *testing.T, path string, pods Mover, ready Readiness) (socket string, stop func() error) {
	t.Helper()
	socket = path
	// One is left from a run that was killed.
	if err := os.WriteFile(socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, socket, pods, ready) }()
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

// TestListen: the file appears when the socket answers, with its mode: by a rename, not by bind(2).
// It goes with the socket, and what was left from a run that was killed is replaced.
func TestListen(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	path := filepath.Join(dir, "control")
	for _, left := range []string{path, path + ".new"} {
		if err := os.WriteFile(left, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	events, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(events) }()
	if _, err := unix.InotifyAddWatch(events, dir, created); err != nil {
		t.Fatal(err)
	}
	socket, err := listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 4096)
	n, err := unix.Read(events, buffer)
	if err != nil {
		t.Fatal(err)
	}
	for seen := buffer[:n]; len(seen) > 0; {
		mask, length := binary.NativeEndian.Uint32(seen[4:]), binary.NativeEndian.Uint32(seen[12:])
		name := strings.TrimRight(string(seen[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+length]), "\x00")
		if name == "control" && mask&unix.IN_MOVED_TO == 0 {
			t.Errorf("%s was created before it could answer (events %#x)", name, mask)
		}
		seen = seen[unix.SizeofInotifyEvent+length:]
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v; want a socket for root alone", info, err)
	}
	if err := socket.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v, %v are left", left, err)
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
	socket, _ := control(t, pods)
	slice, err := Move(t.Context(), socket, systemAgent)
	if err != nil || slice != "kubepods-system-pod1.slice" {
		t.Errorf("answered %q, %v", slice, err)
	}
	for name, want := range map[string]string{"gone": "no such pod", "stays": "not moved: kube-system/stays: no-nri: wait", "fails": "came back in the wrong place"} {
		if _, err := Move(t.Context(), socket, types.NamespacedName{Namespace: "kube-system", Name: name}); err == nil || !strings.Contains(err.Error(), want) {
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
	socket, stop := control(t, pods)
	answer := make(chan error, 1)
	ask := func(ctx context.Context) {
		_, err := Move(ctx, socket, systemAgent)
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
	if err := <-answer; err == nil || !strings.Contains(err.Error(), errStops.Error()) {
		t.Errorf("answered %v, want that the service is stopping", err)
	}
	if _, err := Move(t.Context(), socket, systemAgent); !errors.Is(err, unix.ENOENT) || !strings.Contains(err.Error(), "systemctl status") {
		t.Errorf("after the end: %v", err)
	}
}
