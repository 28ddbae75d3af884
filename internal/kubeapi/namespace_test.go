package kubeapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestNamespace: a namespace is read from the cache of the API server, because each node reads the
// namespaces of its pods again and again.
func TestNamespace(t *testing.T) {
	t.Parallel()
	var asked string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.RequestURI()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"shop","uid":"1","annotations":{"a":"b"}}}`)
	}))
	t.Cleanup(s.Close)
	c := newTestClient(t, s.URL)
	got, err := c.Namespace(t.Context(), "shop")
	if err != nil || got.UID != "1" || got.Annotations["a"] != "b" {
		t.Errorf("%+v, %v", got, err)
	}
	if want := "/api/v1/namespaces/shop?resourceVersion=0"; asked != want {
		t.Errorf("asked for %s; want %s", asked, want)
	}
}
