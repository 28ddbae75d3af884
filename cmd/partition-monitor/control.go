package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"nodepartition/internal/monitor/web"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/podmove"
	"nodepartition/pkg/slices/config"
)

// controlSocket is where the service takes an operator's word. Only root may open it: metrics and health, which everybody may
// ask, have a port of their own.
const controlSocket = config.StateDir + "/monitor/control"

// movePattern is the request that moves one pod. Its answer comes when the pod is in its place.
const movePattern = "POST /move/{namespace}/{name}"

// podMover moves one pod. *podmove.Reconciler is one.
type podMover interface {
	MoveNow(ctx context.Context, pod types.NamespacedName) (slice string, err error)
}

// errStops is the answer to whoever waits when the service ends.
var errStops = errors.New("the service stops")

// serveControl serves at the socket until ctx ends. The lock of the service is held: a socket that is there is left from a run
// that was killed.
func serveControl(ctx context.Context, path string, pods podMover) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, listener.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc(movePattern, func(w http.ResponseWriter, r *http.Request) {
		waits, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		defer context.AfterFunc(ctx, func() { cancel(errStops) })()
		answerMove(waits, w, r, pods)
	})
	return web.Serve(ctx, listener, mux)
}

func answerMove(ctx context.Context, w http.ResponseWriter, r *http.Request, pods podMover) {
	// A container may take as long to end as its grace period, and a pod minutes to get Ready.
	answer := http.NewResponseController(w)
	if err := errors.Join(answer.SetReadDeadline(time.Time{}), answer.SetWriteDeadline(time.Time{})); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	slice, err := pods.MoveNow(ctx, types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")})
	switch {
	case errors.Is(err, podmove.ErrNoPod):
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.Is(err, podmove.ErrNotMoved):
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, slice) // who has gone needs none
	}
}

// askToMove has the service move a pod, and returns the slice that it is in then.
func askToMove(ctx context.Context, socket string, pod types.NamespacedName) (slice string, err error) {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"http://partition-monitor/move/"+url.PathEscape(pod.Namespace)+"/"+url.PathEscape(pod.Name), http.NoBody)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(request)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("%w; it has to be root", err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ECONNREFUSED):
		return "", fmt.Errorf("%w: the service moves pods, and it does not run; see systemctl status %s", err, unitname.MonitorService)
	case err != nil:
		return "", fmt.Errorf("%w; whether the pod is being moved, partition-monitor status tells", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return "", err
	}
	if answer.StatusCode != http.StatusOK {
		return "", errors.New(strings.TrimSpace(string(text)))
	}
	return string(text), nil
}
