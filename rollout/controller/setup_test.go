package controller

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// away is an API server that answers with an error, or with nothing.
type away struct {
	client.Reader
	err error
}

func (a away) List(context.Context, client.ObjectList, ...client.ListOption) error { return a.err }

// TestReaches: a controller that does not reach the API server is not ready, and says why.
func TestReaches(t *testing.T) {
	t.Parallel()
	for _, err := range []error{nil, errors.New("dial tcp 10.96.0.1:443: i/o timeout")} {
		if got := reaches(away{err: err})(httptest.NewRequest(http.MethodGet, "/readyz", nil)); !errors.Is(got, err) {
			t.Errorf("%v; want %v", got, err)
		}
	}
}
