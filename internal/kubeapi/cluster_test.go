package kubeapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

// clusterClient returns a client of a server with these answers, by path and query.
func clusterClient(t *testing.T, answers map[string]string) *Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[strings.TrimSuffix(r.URL.Path+"?"+r.URL.RawQuery, "?")]
		w.Header().Set("Content-Type", "application/json")
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
		} else if answer == "forbidden" {
			w.WriteHeader(http.StatusForbidden)
			answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	return newTestClient(t, server.URL)
}

func nodeJSON(name, allocatable string) string {
	return `{"metadata":{"name":"` + name + `"},"status":{"allocatable":{` + allocatable + `}}}`
}

// TestNodesWithout: all pages are read, and a node that has none of a resource lacks it.
func TestNodesWithout(t *testing.T) {
	t.Parallel()
	c := clusterClient(t, map[string]string{
		"/api/v1/nodes?labelSelector=pool%3Da&limit=500": `{"metadata":{},"items":[` + nodeJSON("four", `"x/a":"1"`) + "]}",
		"/api/v1/nodes?limit=500": `{"metadata":{"continue":"more"},"items":[` +
			nodeJSON("one", `"x/a":"4k","x/b":"1"`) + "," + nodeJSON("two", `"x/a":"0"`) + "]}",
		"/api/v1/nodes?continue=more&limit=500": `{"metadata":{},"items":[` + nodeJSON("three", `"x/b":"1"`) + "]}",
	})
	got, err := c.NodesWithout(t.Context(), "", []string{"x/a", "x/b"})
	want := Lack{Nodes: 3, All: map[string][]string{"x/a": {"two", "three"}, "x/b": {"two"}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if got, err = c.NodesWithout(t.Context(), "pool=a", []string{"x/a"}); err != nil || got.Nodes != 1 || len(got.All) > 0 {
		t.Errorf("with a selector: %v, %v", got, err)
	}
	for answer, text := range map[string]string{"forbidden": "the right to list nodes", "{": "unexpected end"} {
		c := clusterClient(t, map[string]string{"/api/v1/nodes?limit=500": answer})
		if _, err := c.NodesWithout(t.Context(), "", nil); err == nil || !strings.Contains(err.Error(), text) ||
			errors.Is(err, ErrForbidden) != (answer == "forbidden") {
			t.Errorf("%s: error %v; want one with %q", answer, err, text)
		}
	}
}

// TestServedVersion: the first version counts in which a group has the resource.
func TestServedVersion(t *testing.T) {
	t.Parallel()
	const with, without = `{"resources":[{"name":"policies/status"},{"name":"policies"}]}`, `{"resources":[{"name":"others"}]}`
	for name, test := range map[string]struct {
		answers map[string]string
		want    string
		err     error
	}{
		"both":            {map[string]string{"/apis/g/v1": with, "/apis/g/v1beta1": with}, "v1", nil},
		"the second":      {map[string]string{"/apis/g/v1": without, "/apis/g/v1beta1": with}, "v1beta1", nil},
		"only the second": {map[string]string{"/apis/g/v1beta1": with}, "v1beta1", nil},
		"none":            {nil, "", nil},
		"forbidden":       {map[string]string{"/apis/g/v1": "forbidden"}, "", ErrForbidden},
	} {
		got, err := clusterClient(t, test.answers).ServedVersion(t.Context(), "g", "policies", "v1", "v1beta1")
		if got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: %q, %v; want %q, %v", name, got, err, test.want, test.err)
		}
	}
}
