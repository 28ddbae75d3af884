package kubeapi

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	podPath   = "/api/v1/namespaces/kube-system/pods/dns"
	eventPath = "/api/v1/namespaces/kube-system/events"
)

var (
	then = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now  = time.Date(2026, 11, 20, 10, 11, 12, 13, time.UTC)
	dns  = Pod{UID: "1", Namespace: "kube-system", Name: "dns"}
)

func event() *v1.Event { return NewEvent(AboutPod(dns), "one", ReasonEvicted, "low.", now) }

func low(*v1.Pod) string { return "low." }

func running() *v1.Pod {
	return &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "dns", UID: "1", ResourceVersion: "70", Generation: 3},
		Status: v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{
			{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(then)},
			{Type: v1.ContainersReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(then)},
		}},
	}
}

// answer is an answer of an API server to one request: an object, or the text of a broken server.
type answer struct {
	code   int
	object any
	text   string
	header http.Header
}

// refuse returns the answer of an API server that refuses a request.
func refuse(code int, reason metav1.StatusReason, causes ...metav1.StatusCause) answer {
	return answer{code: code, object: metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Reason: reason, Code: int32(code), Message: fmt.Sprintf("no: %s", reason),
		Details: &metav1.StatusDetails{Causes: causes},
	}}
}

func give(object any) answer { return answer{code: http.StatusOK, object: object} }

// request is a request that an API server received.
type request struct {
	line, contentType, agent string
	body                     string
}

// apiServer gives one answer after the other, repeats the last one, and remembers the requests.
type apiServer struct {
	*httptest.Server
	mu       sync.Mutex
	answers  []answer
	requests []request
}

func newAPIServer(t *testing.T, answers ...answer) *apiServer {
	t.Helper()
	s := &apiServer{answers: answers}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, request{r.Method + " " + r.URL.RequestURI(), r.Header.Get("Content-Type"), r.UserAgent(), string(body)})
	a := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	for name, values := range a.header {
		w.Header()[name] = values
	}
	if a.object == nil {
		w.WriteHeader(a.code)
		_, _ = io.WriteString(w, a.text)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.code)
	_ = json.NewEncoder(w).Encode(a.object)
}

func (s *apiServer) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := make([]string, 0, len(s.requests))
	for _, r := range s.requests {
		lines = append(lines, r.line)
	}
	return lines
}

// writeKubeconfig writes the kubeconfig of a user.
func writeKubeconfig(t *testing.T, cluster clientcmdapi.Cluster, user clientcmdapi.AuthInfo) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["here"], config.AuthInfos["kubelet"] = &cluster, &user
	config.Contexts["here"] = &clientcmdapi.Context{Cluster: "here", AuthInfo: "kubelet"}
	config.CurrentContext = "here"
	path := filepath.Join(t.TempDir(), "kubelet.conf")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func newTestClient(t *testing.T, server string) *Client {
	t.Helper()
	return clientOf(t, writeKubeconfig(t, clientcmdapi.Cluster{Server: server}, clientcmdapi.AuthInfo{}))
}

func clientOf(t *testing.T, kubeconfig string) *Client {
	t.Helper()
	c, err := New(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestMarkEvicted(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t, give(running()))
	if err := newTestClient(t, s.URL).MarkEvicted(t.Context(), dns, now, low); err != nil {
		t.Fatal(err)
	}
	if len(s.requests) != 2 {
		t.Fatalf("requests %v", s.lines())
	}
	get, patch := s.requests[0], s.requests[1]
	if get.line != "GET "+podPath || get.agent != Component {
		t.Errorf("first %+v", get)
	}
	if patch.line != "PATCH "+podPath+"/status" || patch.contentType != "application/strategic-merge-patch+json" || patch.agent != Component {
		t.Errorf("second %+v", patch)
	}
	want := `{"metadata":{"uid":"1","resourceVersion":"70"},"status":{"phase":"Failed","reason":"Evicted","message":"low.","conditions":[` +
		`{"type":"DisruptionTarget","status":"True","observedGeneration":3,"lastProbeTime":null,"lastTransitionTime":"2026-11-20T10:11:12Z","reason":"TerminationByKubelet","message":"low."},` +
		`{"type":"ContainersReady","status":"False","observedGeneration":3,"lastProbeTime":null,"lastTransitionTime":"2026-11-20T10:11:12Z","reason":"PodFailed","message":null},` +
		`{"type":"Ready","status":"False","observedGeneration":3,"lastProbeTime":null,"lastTransitionTime":"2026-11-20T10:11:12Z","reason":"PodFailed","message":null}]}}`
	if patch.body != want {
		t.Errorf("patch %s\nwant  %s", patch.body, want)
	}
}

// An existing condition keeps the time of its transition while its status stays; its reason and
// message are replaced.
func TestMarkEvictedExistingConditions(t *testing.T) {
	t.Parallel()
	pod := running()
	pod.Generation = 0 // an API server before 1.33
	pod.Status.Conditions = []v1.PodCondition{
		{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "EvictionByEvictionAPI", LastTransitionTime: metav1.NewTime(then)},
		{Type: v1.PodReady, Status: v1.ConditionFalse, LastTransitionTime: metav1.NewTime(then)},
	}
	patch := evictedPatch(pod, now, "low.")
	data, err := json.Marshal(patch.Status.Conditions)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"type":"DisruptionTarget","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:04:05Z","reason":"TerminationByKubelet","message":"low."}]`
	if string(data) != want {
		t.Errorf("conditions %s\nwant       %s", data, want)
	}
}

func ended(phase v1.PodPhase) *v1.Pod {
	pod := running()
	pod.Status.Phase, pod.Status.Conditions = phase, nil
	return pod
}

// States of a container that the kubelet reports.
var (
	runs       = v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	waits      = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	terminated = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 137}}
)

// failed returns a pod that failed for a reason.
func failed(reason string) *v1.Pod {
	pod := ended(v1.PodFailed)
	pod.Status.Reason = reason
	return pod
}

// dropped returns a pod whose kubelet has dropped the reason.
func dropped(pod *v1.Pod) *v1.Pod {
	pod.Status.Reason = ""
	return pod
}

// written returns an evicted pod that is not ready for a reason, with containers.
func written(reason string, states ...v1.ContainerState) *v1.Pod {
	pod := failed(ReasonEvicted)
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionFalse, Reason: reason}}
	for _, state := range states {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, v1.ContainerStatus{State: state})
	}
	return pod
}

// withSandbox returns a pod whose sandbox runs, or has ended.
func withSandbox(pod *v1.Pod, runs v1.ConditionStatus) *v1.Pod {
	pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: v1.PodReadyToStartContainers, Status: runs})
	return pod
}

func otherUID() *v1.Pod {
	pod := running()
	pod.UID = "2"
	return pod
}

// Pods that must not be changed are not. This includes pods that change between the read and the
// patch.
func TestMarkEvictedUnchangedPods(t *testing.T) {
	t.Parallel()
	mirror := otherUID()
	mirror.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "1"}
	conflict := refuse(http.StatusConflict, metav1.StatusReasonConflict)
	forbidden := refuse(http.StatusForbidden, metav1.StatusReasonForbidden)
	const get, patch, dryRun = "GET " + podPath, "PATCH " + podPath + "/status", "?dryRun=All"
	for name, test := range map[string]struct {
		answers []answer
		want    error
		lines   []string
	}{
		"evicted":             {[]answer{give(failed(ReasonEvicted))}, nil, []string{get}},
		"failed":              {[]answer{give(failed("DeadlineExceeded"))}, nil, []string{get}},
		"changed, failed":     {[]answer{give(running()), conflict, give(failed("DeadlineExceeded"))}, nil, []string{get, patch, get}},
		"succeeded":           {[]answer{give(ended(v1.PodSucceeded))}, nil, []string{get}},
		"another UID":         {[]answer{give(otherUID())}, ErrGone, []string{get}},
		"mirror pod":          {[]answer{give(mirror)}, ErrStatic, []string{get}},
		"changed, then taken": {[]answer{give(running()), conflict, give(running())}, nil, []string{get, patch, get, patch}},
		"changed, ended":      {[]answer{give(running()), conflict, give(ended(v1.PodSucceeded))}, nil, []string{get, patch, get}},
		"changed, recreated":  {[]answer{give(running()), conflict, give(otherUID())}, ErrGone, []string{get, patch, get}},
		"changed, gone": {
			[]answer{give(running()), conflict, refuse(http.StatusNotFound, metav1.StatusReasonNotFound)}, ErrGone, []string{get, patch, get},
		},
		"gone meanwhile": {
			[]answer{give(running()), refuse(http.StatusNotFound, metav1.StatusReasonNotFound)}, ErrGone, []string{get, patch},
		},
		// The answer of the Node authorizer for a pod that is gone.
		"forbidden, gone": {
			[]answer{forbidden, refuse(http.StatusNotFound, metav1.StatusReasonNotFound)}, ErrGone, []string{get, patch + dryRun},
		},
		"forbidden, recreated": {
			[]answer{forbidden, refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
				metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "metadata.uid"})}, ErrGone, []string{get, patch + dryRun},
		},
		"forbidden, overload": {
			[]answer{forbidden, refuse(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)}, ErrUnreachable, []string{get, patch + dryRun},
		},
		"forbidden":          {[]answer{forbidden}, ErrForbidden, []string{get, patch + dryRun}},
		"forbidden to see":   {[]answer{forbidden, give(running())}, ErrForbidden, []string{get, patch + dryRun}},
		"forbidden to patch": {[]answer{give(running()), forbidden}, ErrForbidden, []string{get, patch}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newAPIServer(t, test.answers...)
			if err := newTestClient(t, s.URL).MarkEvicted(t.Context(), dns, now, low); !errors.Is(err, test.want) {
				t.Errorf("error %v; want %v", err, test.want)
			}
			if lines := s.lines(); !slices.Equal(lines, test.lines) {
				t.Errorf("requests %v; want %v", lines, test.lines)
			}
		})
	}
}

// Ended changes nothing.
func TestEnded(t *testing.T) {
	t.Parallel()
	forbidden := refuse(http.StatusForbidden, metav1.StatusReasonForbidden)
	notFound := refuse(http.StatusNotFound, metav1.StatusReasonNotFound)
	const get, dryRun = "GET " + podPath, "PATCH " + podPath + "/status?dryRun=All"
	for name, test := range map[string]struct {
		answers      []answer
		ended, known bool
		want         error
		lines        []string
	}{
		"running":          {[]answer{give(running())}, false, false, nil, []string{get}},
		"pending":          {[]answer{give(ended(v1.PodPending))}, false, false, nil, []string{get}},
		"marked":           {[]answer{give(written(podFailed, runs))}, true, false, nil, []string{get}},
		"marked in part":   {[]answer{give(written(podFailed, terminated, runs))}, true, false, nil, []string{get}},
		"marked, had back": {[]answer{give(written("ContainersNotReady", waits))}, true, false, nil, []string{get}},
		"failed":           {[]answer{give(written(podFailed, terminated, waits))}, true, true, nil, []string{get}},
		"its sandbox runs": {[]answer{give(withSandbox(written(podFailed, terminated), v1.ConditionTrue))}, true, false, nil, []string{get}},
		"its sandbox ends": {[]answer{give(withSandbox(written(podFailed, terminated), v1.ConditionFalse))}, true, true, nil, []string{get}},
		"of its own":       {[]answer{give(failed("DeadlineExceeded"))}, true, true, nil, []string{get}},
		"dropped":          {[]answer{give(dropped(written(podFailed, terminated)))}, false, true, nil, []string{get}},
		"dropped, runs":    {[]answer{give(dropped(written(podFailed, runs)))}, false, false, nil, []string{get}},
		"succeeded":        {[]answer{give(written(podCompleted, terminated))}, true, true, nil, []string{get}},
		"gone":             {[]answer{notFound}, true, true, nil, []string{get}},
		"recreated":        {[]answer{give(otherUID())}, true, true, nil, []string{get}},
		"forbidden, gone":  {[]answer{forbidden, notFound}, true, true, nil, []string{get, dryRun}},
		"forbidden":        {[]answer{forbidden}, false, false, ErrForbidden, []string{get, dryRun}},
		"unauthorized":     {[]answer{refuse(http.StatusUnauthorized, metav1.StatusReasonUnauthorized)}, false, false, ErrCredentials, []string{get}},
		"overload":         {[]answer{refuse(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)}, false, false, ErrUnreachable, []string{get}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newAPIServer(t, test.answers...)
			got, known, err := newTestClient(t, s.URL).Ended(t.Context(), dns)
			if got != test.ended || known != test.known || !errors.Is(err, test.want) {
				t.Errorf("%t, %t, %v; want %t, %t, %v", got, known, err, test.ended, test.known, test.want)
			}
			if lines := s.lines(); !slices.Equal(lines, test.lines) {
				t.Errorf("requests %v; want %v", lines, test.lines)
			}
		})
	}
	t.Run("unreachable", func(t *testing.T) {
		t.Parallel()
		s := newAPIServer(t, give(ended(v1.PodFailed)))
		c := newTestClient(t, s.URL)
		s.Close()
		got, _, err := c.Ended(t.Context(), dns)
		if wantError(t, err, ErrUnreachable, "connection refused"); got {
			t.Error("ended")
		}
	})
}

// A pod that changes at each attempt does not block the caller.
func TestMarkEvictedAlwaysChanged(t *testing.T) {
	t.Parallel()
	var tries int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		a := give(running())
		if r.Method == http.MethodPatch {
			tries++
			a = refuse(http.StatusConflict, metav1.StatusReasonConflict)
		}
		w.WriteHeader(a.code)
		_ = json.NewEncoder(w).Encode(a.object)
	}))
	t.Cleanup(server.Close)
	if err := newTestClient(t, server.URL).MarkEvicted(t.Context(), dns, now, low); !errors.Is(err, ErrUnreachable) || tries != maxConflicts {
		t.Errorf("error %v after %d tries; want %v after %d", err, tries, ErrUnreachable, maxConflicts)
	}
}

var sentinels = []error{ErrForbidden, ErrCredentials, ErrGone, ErrStatic, ErrUnreachable}

// wantError checks the kind of err, nil for none of them, and its texts.
func wantError(t *testing.T, err, want error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want %v", want)
	}
	for _, sentinel := range sentinels {
		if is := errors.Is(err, sentinel); is != errors.Is(want, sentinel) {
			t.Errorf("%v\nis %q: %t; want %v", err, sentinel, is, want)
		}
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%v\nwant it to have %q", err, text)
		}
	}
}

func TestClientErrors(t *testing.T) {
	t.Parallel()
	terminating := metav1.StatusCause{Type: v1.NamespaceTerminatingCause}
	later := refuse(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
	later.header = http.Header{"Retry-After": {"30"}}
	for name, test := range map[string]struct {
		answer answer
		want   error
		texts  []string
	}{
		"forbidden": {
			refuse(http.StatusForbidden, metav1.StatusReasonForbidden), ErrForbidden,
			[]string{"kube-system/dns: not allowed: no: Forbidden; the user of", "kubelet.conf", "get of pods, patch of pods/status, create and patch of events", "--kubeconfig"},
		},
		"namespace goes": {refuse(http.StatusForbidden, metav1.StatusReasonForbidden, terminating), ErrGone, nil},
		"not found":      {refuse(http.StatusNotFound, metav1.StatusReasonNotFound), ErrGone, []string{"kube-system/dns"}},
		"unauthorized":   {refuse(http.StatusUnauthorized, metav1.StatusReasonUnauthorized), ErrCredentials, []string{"kubelet.conf expired?"}},
		"at once":        {later, ErrUnreachable, nil},
		"internal":       {refuse(http.StatusInternalServerError, metav1.StatusReasonInternalError), ErrUnreachable, nil},
		"etcd is away":   {refuse(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable), ErrUnreachable, nil},
		"load balancer":  {answer{code: http.StatusBadGateway, text: "<html>"}, ErrUnreachable, nil},
		"slow node":      {answer{code: http.StatusRequestTimeout, text: "<html>"}, ErrUnreachable, nil},
		"not an API":     {answer{code: http.StatusOK, text: "<html>"}, ErrUnreachable, nil},
		"invalid":        {refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid), nil, []string{"no: Invalid"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newAPIServer(t, test.answer)
			c := newTestClient(t, s.URL)
			texts := append([]string{s.URL + ": get pods kube-system/dns: "}, test.texts...)
			wantError(t, c.MarkEvicted(t.Context(), dns, now, low), test.want, texts...)
			if name == "not an API" { // its answer to an event is not read
				return
			}
			texts = append([]string{s.URL + ": create events about kube-system/dns: "}, test.texts...)
			wantError(t, c.Event(t.Context(), event()), test.want, texts...)
			lines := s.lines()
			if slices.Sort(lines); len(slices.Compact(slices.Clone(lines))) != len(lines) {
				t.Errorf("requests %v; want each once", lines)
			}
		})
	}
}

// silent accepts connections and never answers.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return "http://" + listener.Addr().String()
}

func TestClientUnreachable(t *testing.T) {
	t.Parallel()
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		s := newAPIServer(t, give(running()))
		c := newTestClient(t, s.URL)
		s.Close()
		err := c.MarkEvicted(t.Context(), dns, now, low)
		wantError(t, err, ErrUnreachable, "connection refused")
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%v does not keep its cause", err)
		}
	})
	t.Run("silent", func(t *testing.T) {
		t.Parallel()
		c := newTestClient(t, silent(t))
		if c.Timeout != requestTimeout {
			t.Errorf("a request has %s; want %s", c.Timeout, requestTimeout)
		}
		c.Timeout = 500 * time.Millisecond
		start := time.Now()
		err := c.MarkEvicted(context.WithoutCancel(t.Context()), dns, now, low)
		wantError(t, err, ErrUnreachable)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v does not keep its cause", err)
		}
		if took := time.Since(start); took < c.Timeout {
			t.Errorf("gave up after %s; want %s", took, c.Timeout)
		}
	})
	t.Run("the caller has less time", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		start := time.Now()
		wantError(t, newTestClient(t, silent(t)).Event(ctx, event()), ErrUnreachable)
		if took := time.Since(start); took > requestTimeout/2 {
			t.Errorf("gave up after %s; want 10 ms", took)
		}
	})
	t.Run("the caller gives up", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := newTestClient(t, silent(t)).MarkEvicted(ctx, dns, now, low)
		wantError(t, err, nil)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}

func TestEvent(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t, answer{code: http.StatusCreated, object: v1.Event{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}}})
	e := event()
	e.Annotations = map[string]string{"starved_resource": "memory"}
	c := newTestClient(t, s.URL)
	if err := c.Event(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if got := s.requests[0]; got.line != "POST "+eventPath || got.contentType != "application/json" || got.agent != Component {
		t.Errorf("request %+v", got)
	}
	var got v1.Event
	if err := json.Unmarshal([]byte(s.requests[0].body), &got); err != nil {
		t.Fatal(err)
	}
	at := metav1.NewTime(now.Truncate(time.Second).Local())
	want := v1.Event{
		TypeMeta:       metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("dns.%x", now.UnixNano()), Namespace: "kube-system", Annotations: e.Annotations},
		InvolvedObject: v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "kube-system", Name: "dns", UID: "1"},
		Type:           "Warning", Reason: "Evicted", Message: "low.", FirstTimestamp: at, LastTimestamp: at, Count: 1,
		Source:              v1.EventSource{Component: "partition-monitor", Host: "one"},
		ReportingController: "partition-monitor", ReportingInstance: "one",
	}
	if got.String() != want.String() {
		t.Errorf("event %s\nwant  %s", &got, &want)
	}
}

// A cluster that was created again has another certificate authority. No retry helps, only a new
// file.
func TestClientUnknownAuthority(t *testing.T) {
	t.Parallel()
	one, other := httptest.NewTLSServer(http.NotFoundHandler()), unlike(t)
	defer one.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: one.Certificate().Raw})
	kubeconfig := writeKubeconfig(t, clientcmdapi.Cluster{Server: other, CertificateAuthorityData: ca}, clientcmdapi.AuthInfo{Token: "x"})
	c := clientOf(t, kubeconfig)
	wantError(t, c.MarkEvicted(t.Context(), dns, now, low), ErrCredentials, kubeconfig, "certificate authority", "--kubeconfig")
}

// unlike serves TLS with a certificate of its own.
func unlike(t *testing.T) (address string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server.pem")
	writeCertificate(t, path, "another")
	pair, err := tls.LoadX509KeyPair(path, path)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

func TestNewFails(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("\t{"), 0o600); err != nil {
		t.Fatal(err)
	}
	noCertificate := writeKubeconfig(t, clientcmdapi.Cluster{Server: "https://127.0.0.1:1"},
		clientcmdapi.AuthInfo{ClientCertificate: missing, ClientKey: missing})
	for path, text := range map[string]string{missing: "no such file", broken: "yaml", noCertificate: missing} {
		if _, err := New(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v; want %s and %q", err, path, text)
		}
	}
}
