package kubeapi

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TestEventAboutNode: as the kubelet's events about its node, it is in the namespace default, and
// kubectl describe node finds it by the name in place of the UID.
func TestEventAboutNode(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t, answer{code: http.StatusCreated, object: v1.Event{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}}})
	e := NewEvent(AboutNode("node-1"), "node-1", "Full", "no candidate", then)
	e.Count, e.LastTimestamp = 3, metav1.NewTime(now)
	if err := newTestClient(t, s.URL).Event(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	var got v1.Event
	if err := json.Unmarshal([]byte(s.requests[0].body), &got); err != nil {
		t.Fatal(err)
	}
	if s.requests[0].line != "POST /api/v1/namespaces/default/events" || got.Namespace != "default" {
		t.Errorf("%s in %s; want the namespace default", s.requests[0].line, got.Namespace)
	}
	if want := (v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: "node-1"}); got.InvolvedObject != want {
		t.Errorf("about %+v; want %+v", got.InvolvedObject, want)
	}
	if got.Count != 3 || !got.FirstTimestamp.Time.Equal(then) || !got.LastTimestamp.Time.Equal(now.Truncate(time.Second)) {
		t.Errorf("%d times, %s to %s; want 3, %s to %s", got.Count, got.FirstTimestamp, got.LastTimestamp, then, now)
	}
}

// TestRepeatEvent: a repetition patches the event that the first occurrence created. An event that
// is gone is an error of its kind.
func TestRepeatEvent(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t,
		answer{code: http.StatusCreated, object: v1.Event{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}}},
		give(v1.Event{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}}), refuse(http.StatusNotFound, metav1.StatusReasonNotFound))
	c := newTestClient(t, s.URL)
	e := event()
	if err := c.Event(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	var made v1.Event
	if err := json.Unmarshal([]byte(s.requests[0].body), &made); err != nil {
		t.Fatal(err)
	}
	e.Count, e.LastTimestamp = 7, metav1.NewTime(now.Add(time.Minute))
	if err := c.RepeatEvent(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if got := s.requests[1]; got.line != "PATCH "+eventPath+"/"+made.Name || got.contentType != "application/strategic-merge-patch+json" ||
		got.body != `{"count":7,"lastTimestamp":"2026-11-20T10:12:12Z"}` {
		t.Errorf("request %+v", got)
	}
	wantError(t, c.RepeatEvent(t.Context(), e), ErrGone, "patch events about kube-system/dns")
}

// TestEventRights: the rights are checked with dry runs.
func TestEventRights(t *testing.T) {
	t.Parallel()
	forbidden, gone := refuse(http.StatusForbidden, metav1.StatusReasonForbidden), refuse(http.StatusNotFound, metav1.StatusReasonNotFound)
	made := give(&metav1.Status{})
	for name, test := range map[string]struct {
		answers []answer // create, patch, patch of the node
		want    error
		text    string
	}{
		"all":                     {[]answer{made, gone, made}, nil, ""},
		"not to create":           {[]answer{forbidden}, ErrForbidden, "create events about node/node-1"},
		"not to patch":            {[]answer{made, forbidden}, ErrForbidden, "patch events about node/node-1"},
		"not to patch the status": {[]answer{made, gone, forbidden}, ErrForbidden, "patch nodes/status node/node-1"},
	} {
		s := newAPIServer(t, test.answers...)
		c := newTestClient(t, s.URL)
		err := c.EventRights(t.Context(), "node-1")
		if err == nil {
			err = c.NodeRights(t.Context(), "node-1", true)
		}
		if test.want != nil {
			wantError(t, err, test.want, test.text)
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, line := range s.lines() {
			if !strings.Contains(line, "dryRun=All") {
				t.Errorf("%s: %s is no dry run", name, line)
			}
		}
	}
}

// TestClientNode: a kubelet's certificate names its node, which may have another name than the
// machine.
func TestClientNode(t *testing.T) {
	t.Parallel()
	for user, want := range map[string]string{"system:node:worker-7.example": "worker-7.example", "admin": ""} {
		path := filepath.Join(t.TempDir(), "kubelet-client-current.pem")
		writeCertificate(t, path, user)
		c, err := New(writeKubeconfig(t, clientcmdapi.Cluster{Server: "https://127.0.0.1:1"},
			clientcmdapi.AuthInfo{ClientCertificate: path, ClientKey: path}))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Node(); got != want {
			t.Errorf("%s: node %q; want %q", user, got, want)
		}
	}
	if got := newTestClient(t, "http://127.0.0.1:1").Node(); got != "" {
		t.Errorf("node %q of a client without a certificate", got)
	}
}

// TestEventExists: an earlier run of the program, or an attempt whose answer was lost, has created
// the event with the count of then.
func TestEventExists(t *testing.T) {
	t.Parallel()
	exists := refuse(http.StatusConflict, metav1.StatusReasonAlreadyExists)
	if err := newTestClient(t, newAPIServer(t, exists).URL).Event(t.Context(), event()); err != nil {
		t.Error(err)
	}
	s := newAPIServer(t, exists, give(&v1.Event{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}}))
	counted := event()
	counted.Count, counted.LastTimestamp = 5, metav1.NewTime(now)
	if err := newTestClient(t, s.URL).Event(t.Context(), counted); err != nil {
		t.Fatal(err)
	}
	if lines := s.lines(); len(lines) != 2 || !strings.HasPrefix(lines[1], "PATCH ") || !strings.Contains(s.requests[1].body, `"count":5`) {
		t.Errorf("%v; want that the count is written", lines)
	}
}
