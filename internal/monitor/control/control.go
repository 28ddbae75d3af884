// Package control is the interface between the commands and the running service. Over a socket that
// only root may open, it requests the move of a pod and serves such requests. At the address of
// metrics and health, it queries readiness and reports.
package control

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"nodepartition/internal/monitor/web"
	"nodepartition/pkg/podmove"
	"nodepartition/pkg/slices/config"
)

// Socket is the path at which the service accepts requests of an operator. Only root may open it.
// Metrics and health, which any process may query, have a port of their own.
const Socket = config.StateDir + "/monitor/control"

// movePattern is the request that moves one pod. The response is sent when the pod is in its place.
const movePattern = "POST /move/{namespace}/{name}"

// Mover moves one pod. *podmove.Reconciler is one.
type Mover interface {
	MoveNow(ctx context.Context, pod types.NamespacedName) (slice string, err error)
}

// errStops is the cause that ends waiting requests when the service stops.
var errStops = errors.New("the service is stopping")

// Readiness waits until the partition is active and its pods are managed.
type Readiness interface {
	// AwaitReady returns nil when they are, and the cause of the end of ctx otherwise.
	AwaitReady(ctx context.Context) error
}

// Serve serves requests at the socket until ctx ends. The caller holds the lock of the service, so
// a socket that exists is left from a run that was killed.
func Serve(ctx context.Context, path string, pods Mover, ready Readiness) error {
	listener, err := listen(ctx, path)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	handle := func(pattern string, answer func(context.Context, http.ResponseWriter, *http.Request)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			waits, cancel := context.WithCancelCause(r.Context())
			defer cancel(nil)
			defer context.AfterFunc(ctx, func() { cancel(errStops) })()
			// A container may take as long to end as its grace period, and a pod minutes to get Ready.
			if patient(w) {
				answer(waits, w, r)
			}
		})
	}
	handle(movePattern, func(ctx context.Context, w http.ResponseWriter, r *http.Request) { answerMove(ctx, w, r, pods) })
	handle(readyPattern, func(ctx context.Context, w http.ResponseWriter, _ *http.Request) { answerReady(ctx, w, ready) })
	return web.Serve(ctx, listener, mux)
}

// patient removes the deadlines of a response. It reports false if that failed, which it has
// answered then.
func patient(w http.ResponseWriter) bool {
	answer := http.NewResponseController(w)
	if err := errors.Join(answer.SetReadDeadline(time.Time{}), answer.SetWriteDeadline(time.Time{})); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return false
	}
	return true
}

func answerMove(ctx context.Context, w http.ResponseWriter, r *http.Request, pods Mover) {
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
		_, _ = io.WriteString(w, slice) // the client may have disconnected
	}
}
