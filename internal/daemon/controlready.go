package daemon

import (
	"context"
	"io"
	"net/http"
)

func answerReady(ctx context.Context, w http.ResponseWriter, ready Readiness) {
	if err := ready.AwaitReady(ctx); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ready") // the client may have disconnected
}
