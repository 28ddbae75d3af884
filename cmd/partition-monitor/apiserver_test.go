package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"nodepartition/pkg/evict"
)

// cluster is an API server with one pod, kube-system/dns.
type cluster struct {
	*httptest.Server
	mu       sync.Mutex
	answers  map[string]int // what it answers to a method and a path, instead of doing it
	hang     map[string]int // how often it does not answer in time
	requests []string
	pod      *v1.Pod
	statuses []podStatusPatch
	events   []v1.Event
}

type podStatusPatch struct {
	Metadata struct {
		UID string `json:"uid"`
	} `json:"metadata"`
	Status v1.PodStatus `json:"status"`
}

const (
	getPod    = "GET /api/v1/namespaces/kube-system/pods/dns"
	patchPod  = "PATCH /api/v1/namespaces/kube-system/pods/dns/status"
	postEvent = "POST /api/v1/namespaces/kube-system/events"
)

func newCluster(t *testing.T, start func(http.Handler) *httptest.Server) *cluster {
	t.Helper()
	c := &cluster{answers: map[string]int{}, hang: map[string]int{}, pod: &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "dns", UID: types.UID(uid), ResourceVersion: "7"},
		Spec:       v1.PodSpec{Containers: []v1.Container{requesting("dns", "50Mi"), requesting("log", "20Mi"), requesting("etcd", "1Mi")}},
		Status:     v1.PodStatus{Phase: v1.PodRunning},
	}}
	c.Server = start(c)
	t.Cleanup(c.Close)
	return c
}

func requesting(name, memory string) v1.Container {
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)}}}
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	line := r.Method + " " + r.URL.Path
	c.requests = append(c.requests, line)
	if c.hang[line] > 0 {
		c.hang[line]--
		c.mu.Unlock()
		<-r.Context().Done()
		c.mu.Lock()
		return
	}
	answer, object := http.StatusOK, any(c.pod)
	switch code := c.answers[line]; {
	case code != 0:
		answer = code
		object = metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code),
			Message: "the cluster says no", Reason: map[int]metav1.StatusReason{
				http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound,
				http.StatusUnauthorized: metav1.StatusReasonUnauthorized, http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable,
			}[code],
		}
	case line == patchPod:
		var patch podStatusPatch
		err = json.Unmarshal(body, &patch)
		c.statuses = append(c.statuses, patch)
		c.pod.Status = patch.Status
	case line == postEvent:
		var event v1.Event
		err = json.Unmarshal(body, &event)
		c.events = append(c.events, event)
		answer, object = http.StatusCreated, &event
	}
	if err != nil {
		answer = http.StatusBadRequest
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer)
	_ = json.NewEncoder(w).Encode(object) // fails when the client has gone
}

// came are the requests since the last time.
func (c *cluster) came() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := c.requests
	c.requests = nil
	return lines
}

// kubeconfig of a cluster.
func (c *cluster) kubeconfig(t *testing.T, path string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	entry := &clientcmdapi.Cluster{Server: c.URL}
	if certificate := c.Certificate(); certificate != nil {
		entry.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
	}
	config.Clusters["here"], config.AuthInfos["kubelet"] = entry, &clientcmdapi.AuthInfo{Token: "secret"}
	config.Contexts["here"] = &clientcmdapi.Context{Cluster: "here", AuthInfo: "kubelet"}
	config.CurrentContext = "here"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// logged is a log that a test reads while others write.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newAPIServer(kubeconfig string) (*apiServer, *logged) {
	log := &logged{}
	return &apiServer{kubeconfig: kubeconfig, node: "worker-1", log: slog.New(slog.NewTextHandler(log, nil))}, log
}

// eviction of kube-system/dns, with figures.
func anEviction() evict.Eviction {
	return evict.Eviction{
		UID: uid, Namespace: "kube-system", Name: "dns", QoS: v1.PodQOSBurstable, Owner: "rs", Priority: 7,
		Time: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC), Threshold: evict.Hard, Way: evict.Evict,
		AvailableBytes: 20 * mebi, AtBytes: 32 * mebi, LimitBytes: 512 * mebi, WorkingSetBytes: 130 * mebi, RequestBytes: 70 * mebi,
		Containers: []evict.Stopped{
			{ID: "c1", Name: "dns", WorkingSetBytes: 125 * mebi, RequestBytes: 50 * mebi},
			{ID: "c2", Name: "log", WorkingSetBytes: 5 * mebi, RequestBytes: 20 * mebi},
		},
	}
}

// The pod gets the status of an evicted one, and an event says who used what.
func TestEvict(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(http.Handler) *httptest.Server{"plain": httptest.NewServer, "TLS": httptest.NewTLSServer} {
		c := newCluster(t, start)
		a, log := newAPIServer(c.kubeconfig(t, filepath.Join(t.TempDir(), "kubelet.conf")))
		if a.look(); !a.Available() {
			t.Fatalf("%s: not available: %s", name, log)
		}
		if err := a.Evict(t.Context(), anEviction()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, want := c.came(), []string{getPod, patchPod, postEvent}; !slices.Equal(got, want) {
			t.Fatalf("%s: requests %v; want %v", name, got, want)
		}
		patch, event := c.statuses[0], c.events[0]
		if s := patch.Status; patch.Metadata.UID != uid || s.Phase != v1.PodFailed || s.Reason != "Evicted" {
			t.Errorf("%s: %+v", name, patch)
		}
		const who = "Container dns was using 125Mi, request is 50Mi"
		for _, text := range []string{patch.Status.Message, event.Message} {
			if !strings.Contains(text, "Threshold quantity: 32Mi, available: 20Mi.") || !strings.Contains(text, who) || strings.Contains(text, "Container log") {
				t.Errorf("%s: %q; want the figures and who used more than requested", name, text)
			}
		}
		if o := event.InvolvedObject; o.Kind != "Pod" || o.Name != "dns" || o.Namespace != "kube-system" || string(o.UID) != uid {
			t.Errorf("%s: the event is about %+v", name, o)
		}
		if event.Reason != "Evicted" || event.Type != v1.EventTypeWarning || event.Source.Host != "worker-1" || event.Annotations["offending_containers"] != "dns" {
			t.Errorf("%s: %+v", name, event)
		}
		if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, a.kubeconfig) || !strings.Contains(text, c.URL) || strings.Contains(text, "secret") {
			t.Errorf("%s: log %q; want once where to", name, text)
		}
	}
}

// What cannot be changed by another attempt is final, and what can is not.
func TestEvictFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answers map[string]int
		pod     func(*v1.Pod)
		fails   bool
		final   bool
		avoided bool   // the next pods' containers are only stopped for a while
		text    string // in the error
		log     string
	}{
		"gone":                 {answers: map[string]int{getPod: http.StatusNotFound}},
		"gone meanwhile":       {answers: map[string]int{patchPod: http.StatusNotFound}},
		"made again":           {pod: func(p *v1.Pod) { p.UID = "another" }},
		"forbidden":            {answers: map[string]int{patchPod: http.StatusForbidden}, fails: true, final: true, avoided: true, text: "patch of pods/status"},
		"forbidden to see":     {answers: map[string]int{getPod: http.StatusForbidden, patchPod: http.StatusForbidden}, fails: true, final: true, avoided: true, text: "get of pods"},
		"expired":              {answers: map[string]int{getPod: http.StatusUnauthorized}, fails: true, final: true, avoided: true, text: "expired?"},
		"the mirror of static": {pod: func(p *v1.Pod) { p.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"} }, fails: true, final: true, text: "static"},
		"overload":             {answers: map[string]int{patchPod: http.StatusServiceUnavailable}, fails: true, text: "the cluster says no"},
		"overload at first":    {answers: map[string]int{getPod: http.StatusServiceUnavailable}, fails: true},
		// The pod is evicted all the same.
		"event forbidden": {answers: map[string]int{postEvent: http.StatusForbidden}, log: "the event of an eviction could not be made"},
		"event overload":  {answers: map[string]int{postEvent: http.StatusServiceUnavailable}, log: "the event of an eviction could not be made"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, httptest.NewServer)
			c.answers = test.answers
			if test.pod != nil {
				test.pod(c.pod)
			}
			a, log := newAPIServer(c.kubeconfig(t, filepath.Join(t.TempDir(), "kubelet.conf")))
			err := a.Evict(t.Context(), anEviction())
			if (err != nil) != test.fails || errors.Is(err, evict.ErrFinal) != test.final {
				t.Errorf("%v; want an error: %t, final: %t", err, test.fails, test.final)
			}
			if err != nil && !strings.Contains(err.Error(), test.text) {
				t.Errorf("%v; want that it says %q", err, test.text)
			}
			if !strings.Contains(log.String(), test.log) {
				t.Errorf("log %q; want %q", log, test.log)
			}
			// After what needs an operator, nothing is tried for a while.
			if available := a.Available(); available == test.avoided {
				t.Errorf("available: %t", available)
			}
		})
	}
}

// An API server that is away may be back: the same eviction is told again.
func TestEvictAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, httptest.NewServer)
	a, _ := newAPIServer(c.kubeconfig(t, filepath.Join(t.TempDir(), "kubelet.conf")))
	c.answers[patchPod] = http.StatusServiceUnavailable
	for range 2 {
		if err := a.Evict(t.Context(), anEviction()); err == nil || errors.Is(err, evict.ErrFinal) {
			t.Fatalf("%v; want an error that is not final", err)
		}
	}
	delete(c.answers, patchPod)
	if err := a.Evict(t.Context(), anEviction()); err != nil {
		t.Fatal(err)
	}
	if len(c.statuses) != 1 || len(c.events) != 1 {
		t.Errorf("%d statuses, %d events; want one", len(c.statuses), len(c.events))
	}
	// Nobody answers at all.
	c.Close()
	if err := a.Evict(t.Context(), anEviction()); err == nil || errors.Is(err, evict.ErrFinal) || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("%v; want that it cannot be reached, and not final", err)
	}
}

// One that takes the connection and does not answer is worth another attempt; the manager bounds each.
func TestEvictHangs(t *testing.T) {
	t.Parallel()
	c := newCluster(t, httptest.NewServer)
	a, log := newAPIServer(c.kubeconfig(t, filepath.Join(t.TempDir(), "kubelet.conf")))
	a.timeout = time.Second
	c.hang[getPod], c.hang[postEvent] = 1, 1
	if err := a.Evict(t.Context(), anEviction()); err == nil || errors.Is(err, evict.ErrFinal) || !strings.Contains(err.Error(), "cannot be reached") {
		t.Fatalf("%v; want that it cannot be reached, and not final", err)
	}
	if err := a.Evict(t.Context(), anEviction()); err != nil || len(c.statuses) != 1 {
		t.Errorf("%v, %d statuses; want that the second attempt succeeds", err, len(c.statuses))
	}
	if !strings.Contains(log.String(), "the event of an eviction could not be made") {
		t.Errorf("log %q", log)
	}
}

// A kubelet that has overwritten the status is put right, without a second event.
func TestConfirm(t *testing.T) {
	t.Parallel()
	c := newCluster(t, httptest.NewServer)
	a, _ := newAPIServer(c.kubeconfig(t, filepath.Join(t.TempDir(), "kubelet.conf")))
	if err := a.Evict(t.Context(), anEviction()); err != nil {
		t.Fatal(err)
	}
	c.came()
	confirm := func(settles bool, want ...string) {
		t.Helper()
		if settled, err := a.Confirm(t.Context(), anEviction()); err != nil || settled != settles {
			t.Errorf("settled: %t, %v; want %t", settled, err, settles)
		}
		if came := c.came(); !slices.Equal(came, want) {
			t.Errorf("requests %v; want %v", came, want)
		}
	}
	confirm(true, getPod) // as it was left
	c.pod.Status.Phase = v1.PodRunning
	confirm(false, getPod, getPod, patchPod)
	confirm(true, getPod) // marked again
	c.pod.Status.Reason = ""
	confirm(true, getPod, getPod, patchPod) // the kubelet knows, and has dropped the reason
	confirm(true, getPod)
	c.pod.Status.Phase = v1.PodSucceeded
	confirm(true, getPod)
	c.pod.Status.ContainerStatuses = []v1.ContainerStatus{{State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}
	confirm(false, getPod) // the kubelet has not written it
	c.answers[getPod] = http.StatusNotFound
	confirm(true, getPod) // deleted by now
	c.answers[getPod] = http.StatusServiceUnavailable
	if settled, err := a.Confirm(t.Context(), anEviction()); settled || err == nil || errors.Is(err, evict.ErrFinal) {
		t.Errorf("%v; want an error that is not final", err)
	}
	c.answers[getPod], c.pod.Status.Phase = 0, v1.PodRunning
	c.answers[patchPod] = http.StatusForbidden
	if settled, err := a.Confirm(t.Context(), anEviction()); settled || !errors.Is(err, evict.ErrFinal) {
		t.Errorf("%v; want a final error", err)
	}
}

// A container that was started a moment ago has no name yet, and is not named.
func TestEvictWithoutName(t *testing.T) {
	t.Parallel()
	c := newCluster(t, httptest.NewServer)
	a, _ := newAPIServer(c.kubeconfig(t, filepath.Join(t.TempDir(), "kubelet.conf")))
	e := anEviction()
	e.Containers = append(e.Containers, evict.Stopped{ID: "c3", WorkingSetBytes: mebi})
	if err := a.Evict(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if message := c.events[0].Message; strings.Count(message, "Container ") != 1 {
		t.Errorf("%q; want dns alone", message)
	}
}

// The message goes by the pod as the API server has it: an ephemeral container is not blamed, and a request of the pod as a whole is named.
func TestEvictSaysWhatTheKubeletSays(t *testing.T) {
	t.Parallel()
	c := newCluster(t, httptest.NewServer)
	c.pod.Spec.Resources = &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse("70Mi")}}
	a, _ := newAPIServer(c.kubeconfig(t, filepath.Join(t.TempDir(), "kubelet.conf")))
	e := anEviction()
	e.Containers = append(e.Containers, evict.Stopped{ID: "c3", Name: "debugger", WorkingSetBytes: 90 * mebi})
	if err := a.Evict(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	message := c.statuses[0].Status.Message
	if strings.Contains(message, "debugger") || !strings.Contains(message, "Pod dns was using 130Mi, request is 70Mi") || c.events[0].Message != message {
		t.Errorf("%q, event %q", message, c.events[0].Message)
	}
	if notes := c.events[0].Annotations; notes["offending_containers"] != "dns" || notes["offending_pod"] != "dns" {
		t.Errorf("annotations %v", notes)
	}
}

// What was refused, or does not answer, may be of a kubeconfig that was replaced: the eviction at hand goes by the new one.
func TestKubeconfigIsReadAgain(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*cluster){
		"expired":   func(c *cluster) { c.answers[getPod] = http.StatusUnauthorized },
		"forbidden": func(c *cluster) { c.answers[patchPod] = http.StatusForbidden },
		"overload":  func(c *cluster) { c.answers[patchPod] = http.StatusServiceUnavailable },
		"moved":     func(c *cluster) { c.Close() },
	} {
		old, renewed := newCluster(t, httptest.NewServer), newCluster(t, httptest.NewServer)
		path := old.kubeconfig(t, filepath.Join(t.TempDir(), "kubelet.conf"))
		a, log := newAPIServer(path)
		if err := a.Evict(t.Context(), anEviction()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		old.pod.Status = v1.PodStatus{Phase: v1.PodRunning}
		fail(old)
		renewed.kubeconfig(t, path)
		if err := a.Evict(t.Context(), anEviction()); err != nil || len(renewed.statuses) != 1 || !a.Available() {
			t.Errorf("%s: %v, %d statuses, available %t; want that the new server is told", name, err, len(renewed.statuses), a.Available())
		}
		if text := log.String(); strings.Count(text, "told to the API server") != 2 || !strings.Contains(text, renewed.URL) {
			t.Errorf("%s: log %q", name, text)
		}
		renewed.answers[getPod] = http.StatusUnauthorized
		if err := a.Evict(t.Context(), anEviction()); !errors.Is(err, evict.ErrFinal) || a.Available() {
			t.Errorf("%s: %v, available %t; want a final error of the present one", name, err, a.Available())
		}
	}
}

// A cluster made anew has another authority, which its kubeconfig has inside.
func TestAnotherAuthority(t *testing.T) {
	t.Parallel()
	c := newCluster(t, httptest.NewTLSServer)
	path := filepath.Join(t.TempDir(), "kubelet.conf")
	a, _ := newAPIServer(c.kubeconfig(t, path))
	right, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	config.Clusters["here"].CertificateAuthorityData = anotherAuthority(t)
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	if err := a.Evict(t.Context(), anEviction()); !errors.Is(err, evict.ErrFinal) || !strings.Contains(err.Error(), "certificate authority") {
		t.Errorf("%v; want that the authority is another", err)
	}
	if err := os.WriteFile(path, right, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.Evict(t.Context(), anEviction()); err != nil || len(c.statuses) != 1 {
		t.Errorf("%v, %d statuses", err, len(c.statuses))
	}
}

func anotherAuthority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// One eviction's failure is its own: another that was told is confirmed all the same, and the next is told.
func TestOthersFailure(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*cluster){
		"the mirror of a static pod": func(c *cluster) { c.pod.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"} },
		"forbidden":                  func(c *cluster) { c.answers[getPod], c.answers[patchPod] = http.StatusForbidden, http.StatusForbidden },
	} {
		c := newCluster(t, httptest.NewServer)
		a, _ := newAPIServer(c.kubeconfig(t, filepath.Join(t.TempDir(), "kubelet.conf")))
		if err := a.Evict(t.Context(), anEviction()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		fail(c)
		if err := a.Evict(t.Context(), anEviction()); !errors.Is(err, evict.ErrFinal) {
			t.Errorf("%s: %v; want a final error", name, err)
		}
		c.pod.Annotations = nil
		clear(c.answers)
		if settled, err := a.Confirm(t.Context(), anEviction()); !settled || err != nil {
			t.Errorf("%s: %t, %v; want that the first is confirmed", name, settled, err)
		}
	}
}

// A server that takes long for each request gets all that one attempt takes, and no more than the end of the program allows.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, func(h http.Handler) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(600 * time.Millisecond):
				h.ServeHTTP(w, r)
			case <-r.Context().Done(): // as priority and fairness drops what nobody waits for
			}
		}))
	})
	a, log := newAPIServer(c.kubeconfig(t, filepath.Join(t.TempDir(), "kubelet.conf")))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := a.Evict(ctx, anEviction()); err != nil || len(c.statuses) != 1 || len(c.events) != 1 {
		t.Errorf("%v, %d statuses, %d events: %s", err, len(c.statuses), len(c.events), log)
	}
	over, end := context.WithCancel(t.Context())
	end()
	if err := a.Evict(over, anEviction()); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want the end of the program", err)
	}
}

// A node may join its cluster long after we have started. Until then the log says once why evictions go without the API server.
func TestKubeconfigComesLater(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kubelet.conf")
	c := newCluster(t, httptest.NewServer)
	synctest.Test(t, func(t *testing.T) {
		a, log := newAPIServer(path)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = a.run(ctx) // it ends with its context
		}()
		<-time.After(lookAgain / 2) // files are changed between two looks
		for range 5 {
			<-time.After(lookAgain)
			if a.Available() {
				t.Error("available without a file")
			}
			// Not final: it may come at any time.
			if err := a.Evict(t.Context(), anEviction()); err == nil || errors.Is(err, evict.ErrFinal) {
				t.Errorf("%v; want an error that is not final", err)
			}
		}
		if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "without the API server") || !strings.Contains(text, path) {
			t.Errorf("log %q; want once why not", text)
		}
		// A file that is no kubeconfig is another reason.
		if err := os.WriteFile(path, []byte("kind: [\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * lookAgain)
		if a.Available() {
			t.Error("available with what is no kubeconfig")
		}
		if text := log.String(); strings.Count(text, "\n") != 2 {
			t.Errorf("log %q; want the second reason, once", text)
		}
		c.kubeconfig(t, path)
		if a.Available() {
			t.Error("who decides has read a file")
		}
		<-time.After(2 * lookAgain)
		if !a.Available() {
			t.Errorf("not available: %s", log)
		}
		if text := log.String(); strings.Count(text, "\n") != 3 || !strings.Contains(text, "told to the API server") || !strings.Contains(text, c.URL) {
			t.Errorf("log %q; want who is told", text)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * lookAgain)
		if a.Available() {
			t.Error("available after the node has left its cluster")
		}
		stop()
		<-ended
	})
	if came := c.came(); len(came) > 0 {
		t.Errorf("asked without need: %v", came)
	}
}

// none is no file, and nothing to say: somebody has asked for it.
func TestNoKubeconfig(t *testing.T) {
	t.Parallel()
	a, log := newAPIServer(kubeconfigNone)
	if a.Available() || log.String() != "" {
		t.Errorf("available, or log %q", log)
	}
	if err := a.Evict(t.Context(), anEviction()); !errors.Is(err, evict.ErrFinal) {
		t.Errorf("%v; want a final error", err)
	}
}
