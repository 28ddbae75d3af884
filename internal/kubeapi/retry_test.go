package kubeapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestRetry: what the API server refuses is tried again after minutes and hours, and one that is
// away is asked again soon. An error of another kind starts again.
func TestRetry(t *testing.T) {
	t.Parallel()
	for kind, want := range map[error]class{
		ErrUnreachable: {time.Second, time.Minute}, ErrGone: {time.Second, 10 * time.Second}, ErrNoClient: {time.Second, 10 * time.Second},
		apierrors.NewConflict(v1.Resource("nodes"), "one", nil): {time.Second, time.Minute},
		ErrCredentials: {time.Second, 5 * time.Minute}, ErrForbidden: {5 * time.Minute, time.Hour}, errors.ErrUnsupported: {5 * time.Minute, time.Hour},
	} {
		err := fmt.Errorf("a request: %w", kind)
		var r Retry
		within := func(what string, middle time.Duration) {
			t.Helper()
			if got := r.After(err); got < middle/2 || got > middle*3/2 {
				t.Errorf("%v, %s: %s; want half to one and a half of %s", kind, what, got, middle)
			}
		}
		within("the first", want.first)
		within("the second", 2*want.first)
		for range 20 {
			r.After(err)
		}
		within("the last", want.last)
		other := ErrGone
		if want == classOf(other) {
			other = ErrForbidden
		}
		r.After(other)
		within("after another error", want.first)
	}
	seen := map[time.Duration]bool{}
	for range 100 {
		var r Retry
		seen[r.After(ErrUnreachable)] = true
	}
	if len(seen) < 50 {
		t.Errorf("100 nodes have %d different pauses", len(seen))
	}
}

// TestRetryAfter: an API server that is overloaded says when to come back, and no request comes
// before that. A proxy may say a day.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for demanded, want := range map[string]time.Duration{"40": 40 * time.Second, "86400": maxDemand} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", demanded)
			http.Error(w, "too many requests", http.StatusTooManyRequests)
		}))
		defer server.Close()
		err := newTestClient(t, server.URL).Event(t.Context(), event())
		wantError(t, err, ErrUnreachable)
		var r Retry
		if got := r.After(err); got < want || got > want+2*time.Second {
			t.Errorf("%s after a demand of %s s; want %s", got, demanded, want)
		}
	}
}
