package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func nodeWith(capacity map[v1.ResourceName]string) v1.Node {
	node := v1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "1", ResourceVersion: "70"},
		Status:     v1.NodeStatus{Capacity: v1.ResourceList{}},
	}
	for name, value := range capacity {
		node.Status.Capacity[name] = resource.MustParse(value)
	}
	return node
}

// TestSetCores: a patch sets and removes resources, of the node of that UID alone, where the
// kubelet and the scheduler read them. Its answer has the resources of types, and which of them are
// ours.
func TestSetCores(t *testing.T) {
	t.Parallel()
	node := nodeWith(map[v1.ResourceName]string{
		"cpu": "4", "a.workload.openshift.io/cores": "4k", "b.workload.openshift.io/cores": "0", ".workload.openshift.io/cores": "1",
	})
	fields := func(manager, raw string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(raw)}}
	}
	node.ManagedFields = []metav1.ManagedFieldsEntry{
		fields(Component, `{"f:status":{"f:capacity":{"f:a.workload.openshift.io/cores":{}}}}`),
		fields(Component, `{"f:status":{"f:conditions":{}}}`),
		fields("kubelet", `{"f:status":{"f:capacity":{"f:b.workload.openshift.io/cores":{}}}}`),
		{Manager: Component},
	}
	s := newAPIServer(
		t, give(node), refuse(http.StatusForbidden, metav1.StatusReasonForbidden), refuse(http.StatusNotFound, metav1.StatusReasonNotFound),
		refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid), answer{code: http.StatusNotFound, text: "no backend"},
	)
	c := newTestClient(t, s.URL)
	value := int64(4000)
	set := func() (Node, error) {
		return c.SetCores(t.Context(), "node-1", "1", map[string]*int64{"a": &value, "gone": nil})
	}
	got, err := set()
	if err != nil || got.UID != "1" || got.Version != "70" || !maps.Equal(got.Cores, map[string]int64{"a": 4000, "b": 0}) ||
		!slices.Equal(got.Ours, []string{"a"}) {
		t.Errorf("%+v, %v", got, err)
	}
	const values = `{"a.workload.openshift.io/cores":"4000","gone.workload.openshift.io/cores":null}`
	want := `{"metadata":{"uid":"1"},"status":{"allocatable":` + values + `,"capacity":` + values + `}}`
	if r := s.requests[0]; r.line != "PATCH /api/v1/nodes/node-1/status" || r.body != want || r.contentType != "application/merge-patch+json" {
		t.Errorf("request %+v; want %s", r, want)
	}
	for _, want := range []error{ErrForbidden, ErrGone, ErrGone, ErrUnreachable} {
		_, err := set()
		wantError(t, err, want, "patch nodes/status node/node-1")
	}
}

// TestNodeIsOlder: versions of a node are ordered as numbers. One that cannot be read is not older.
func TestNodeIsOlder(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want bool
	}{{"9", "10", true}, {"10", "9", false}, {"10", "10", false}, {"", "10", false}, {"a", "10", false}} {
		if got := (Node{Version: test.a}).IsOlder(Node{Version: test.b}); got != test.want {
			t.Errorf("%q before %q: %v", test.a, test.b, got)
		}
	}
}

// watched serves one watch, and returns the client and the query.
func watched(t *testing.T, serve http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(serve)
	t.Cleanup(s.Close)
	return newTestClient(t, s.URL)
}

// TestWatchNode: the states of a node are read one after the other. What else a server says is an
// error with its kind.
func TestWatchNode(t *testing.T) {
	t.Parallel()
	const has = `{"type":"%s","object":{"metadata":{"uid":"%s","resourceVersion":"7"},"status":{"capacity":{"a.workload.openshift.io/cores":"%s"}}}}`
	states := fmt.Sprintf(has, "ADDED", "1", "4k") + "\n" + fmt.Sprintf(has, "MODIFIED", "1", "0") +
		fmt.Sprintf(has, "DELETED", "1", "0") + `{"type":"BOOKMARK","object":{}}`
	const all = "1 map[a:4000]; 1 map[a:0]; deleted; "
	for name, test := range map[string]struct {
		code int
		text string
		want error
		seen string
	}{
		"a node":      {http.StatusOK, states, nil, all},
		"no node":     {http.StatusOK, "", nil, ""},
		"cut off":     {http.StatusOK, states + `{"type":"ADDED","obj`, ErrUnreachable, all},
		"overloaded":  {http.StatusOK, states + `{"type":"ERROR","object":{"kind":"Status","code":429,"reason":"TooManyRequests"}}`, ErrUnreachable, all},
		"no right":    {http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden"}`, ErrForbidden, ""},
		"no user":     {http.StatusUnauthorized, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":401,"reason":"Unauthorized"}`, ErrCredentials, ""},
		"no backend":  {http.StatusNotFound, "no", ErrUnreachable, ""},
		"not a watch": {http.StatusOK, "<html>", ErrUnreachable, ""},
		"an object of another kind": {
			http.StatusOK, `{"type":"ADDED","object":{"status":{"capacity":{"a.workload.openshift.io/cores":"many"}}}}`, ErrUnreachable, "",
		},
	} {
		var query string
		c := watched(t, func(w http.ResponseWriter, r *http.Request) {
			query = r.URL.Query().Encode()
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(test.code)
			_, _ = io.WriteString(w, test.text)
		})
		var seen strings.Builder
		err := c.WatchNode(t.Context(), "node-1", func(n *Node) {
			if n == nil {
				seen.WriteString("deleted; ")
				return
			}
			fmt.Fprintf(&seen, "%s %v; ", n.UID, n.Cores)
		})
		if seen.String() != test.seen {
			t.Errorf("%s: seen %q; want %q", name, seen.String(), test.seen)
		}
		if test.want == nil && err != nil {
			t.Errorf("%s: %v", name, err)
		} else if test.want != nil {
			wantError(t, err, test.want, "watch nodes node/node-1")
		}
		if !strings.HasPrefix(query, "fieldSelector=metadata.name%3Dnode-1&resourceVersion=0&timeoutSeconds=") || !strings.HasSuffix(query, "&watch=true") {
			t.Errorf("%s: query %s", name, query)
		}
	}
}

// TestWatchNodeEnds: a watch ends with its context, and a server that does not answer is not waited
// for longer than for any request.
func TestWatchNodeEnds(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	c := watched(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, `{"type":"DELETED","object":{}}`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	if err := c.WatchNode(ctx, "node-1", func(*Node) { stop() }); !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %v", err)
	}
	silent := watched(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	silent.Timeout = 50 * time.Millisecond
	wantError(t, silent.WatchNode(t.Context(), "node-1", nil), ErrUnreachable, "watch nodes")
}
