package daemon

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/daemon/web"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/pkg/podmove"
)

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

// Requests has what answers the requests.
type Requests struct {
	Pods  Mover
	Ready Readiness
	// Listening returns why metrics and health are not served, nil if they are or --listen is empty.
	Listening func() error
	// Web answers what the address of metrics and health answers. Commands ask here, because the
	// address may ask for a password.
	Web http.Handler
}

// ServeControl serves requests at the socket until ctx ends. The caller holds the lock of the
// service, so a socket that exists is left from a run that was killed.
func ServeControl(ctx context.Context, path string, r Requests) error {
	listener, err := listen(ctx, path)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	handle := func(pattern string, answer func(context.Context, http.ResponseWriter, *http.Request)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, request *http.Request) {
			waits, cancel := context.WithCancelCause(request.Context())
			defer cancel(nil)
			defer context.AfterFunc(ctx, func() { cancel(errStops) })()
			// A container may take as long to end as its grace period, and a pod minutes to get Ready.
			if patient(w) {
				answer(waits, w, request)
			}
		})
	}
	handle(node.MovePattern, func(ctx context.Context, w http.ResponseWriter, request *http.Request) {
		answerMove(ctx, w, request, r.Pods)
	})
	handle(node.ReadyPattern, func(ctx context.Context, w http.ResponseWriter, _ *http.Request) {
		answerReady(ctx, w, r.Ready)
	})
	mux.HandleFunc(node.ListeningPattern, func(w http.ResponseWriter, _ *http.Request) {
		if err := r.Listening(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	mux.Handle("GET /", r.Web)
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

func answerReady(ctx context.Context, w http.ResponseWriter, ready Readiness) {
	if err := ready.AwaitReady(ctx); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ready") // the client may have disconnected
}
