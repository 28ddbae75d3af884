// Package fakeapi is an API server for tests of evictions, events and conditions. It serves the
// requests that the monitor makes.
package fakeapi

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// UID is the UID of the pod.
const UID = "11111111-2222-3333-4444-555555555555"

// Cluster is an API server with one pod, kube-system/dns.
type Cluster struct {
	*httptest.Server
	mu       sync.Mutex
	Answers  map[string]int // status codes by method and path; such requests have no effect
	Hang     map[string]int // number of requests that are not answered, by method and path
	requests []string
	Pod      *v1.Pod
	Statuses []PodStatusPatch
	Events   []v1.Event
	// Objects holds answers as JSON, by method and path: lists, and objects that nothing changes.
	Objects map[string]string
	// Namespaces holds the namespaces by name.
	Namespaces map[string]*v1.Namespace
	uid        types.UID // of the node; empty while there is none
	fields     map[string]field
}

// PodStatusPatch is the body of a request to patch the status of a pod.
type PodStatusPatch struct {
	Metadata struct {
		UID string `json:"uid"`
	} `json:"metadata"`
	Status v1.PodStatus `json:"status"`
}

// Requests of an eviction, as Came returns them.
const (
	GetPod    = "GET /api/v1/namespaces/kube-system/pods/dns"
	PatchPod  = "PATCH /api/v1/namespaces/kube-system/pods/dns/status"
	PostEvent = "POST /api/v1/namespaces/kube-system/events"
)

// Requests about a node, as Came returns them.
const (
	// Node is the name of the node.
	Node          = "node-1"
	PostNodeEvent = "POST /api/v1/namespaces/default/events"
	PatchNode     = "PATCH /api/v1/nodes/" + Node + "/status"
	// PatchEvent stands for a patch of any event.
	PatchEvent = "PATCH events"
)

// New serves a cluster until the test ends. start is httptest.NewServer or httptest.NewTLSServer.
func New(t *testing.T, start func(http.Handler) *httptest.Server) *Cluster {
	t.Helper()
	c := &Cluster{Answers: map[string]int{}, Hang: map[string]int{}, uid: "1", fields: map[string]field{}}
	c.Pod = &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "dns", UID: UID, ResourceVersion: "7"},
		Spec: v1.PodSpec{
			Containers: []v1.Container{Requesting("dns", "50Mi"), Requesting("log", "20Mi"), Requesting("etcd", "1Mi")},
		},
		Status: v1.PodStatus{Phase: v1.PodRunning},
	}
	c.Server = start(c)
	t.Cleanup(c.Close)
	return c
}

// SetNamespace makes a namespace with annotations, or changes it. It is gone if uid is empty.
func (c *Cluster) SetNamespace(name, uid string, annotations map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Namespaces == nil {
		c.Namespaces = map[string]*v1.Namespace{}
	}
	if uid == "" {
		delete(c.Namespaces, name)
		return
	}
	c.Namespaces[name] = &v1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), Annotations: annotations},
	}
}

// Requesting returns a container that requests memory.
func Requesting(name, memory string) v1.Container {
	return v1.Container{
		Name:      name,
		Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)}},
	}
}

// ServeHTTP implements http.Handler.
func (c *Cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	line := r.Method + " " + r.URL.Path
	event := path.Base(r.URL.Path)
	if r.Method == http.MethodPatch && strings.Contains(line, "/events/") {
		line = PatchEvent
	}
	c.requests = append(c.requests, line)
	if c.Hang[line] > 0 {
		c.Hang[line]--
		c.mu.Unlock()
		<-r.Context().Done()
		c.mu.Lock()
		return
	}
	answer, object := http.StatusOK, any(c.Pod)
	switch code := c.Answers[line]; {
	case code != 0:
		answer = code
		object = status(code)
	case c.Objects[line] != "":
		object = json.RawMessage(c.Objects[line])
	case line == PatchPod:
		var patch PodStatusPatch
		err = json.Unmarshal(body, &patch)
		c.Statuses = append(c.Statuses, patch)
		c.Pod.Status = patch.Status
	case r.Method == http.MethodGet && path.Dir(r.URL.Path) == "/api/v1/namespaces":
		namespace, ok := c.Namespaces[path.Base(r.URL.Path)]
		if object = namespace; !ok {
			answer, object = http.StatusNotFound, status(http.StatusNotFound)
		}
	case line == PostEvent, line == PostNodeEvent:
		var event v1.Event
		err = json.Unmarshal(body, &event)
		c.Events = append(c.Events, event)
		answer, object = http.StatusCreated, &event
	case line == PatchEvent:
		i := slices.IndexFunc(c.Events, func(e v1.Event) bool { return e.Name == event })
		if i < 0 {
			answer, object = http.StatusNotFound, status(http.StatusNotFound)
			break
		}
		err = json.Unmarshal(body, &c.Events[i])
		object = &c.Events[i]
	case line == PatchNode:
		answer, object, err = c.patchNode(r, body)
	}
	if err != nil {
		answer = http.StatusBadRequest
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer)
	_ = json.NewEncoder(w).Encode(object) // fails if the client is gone
}

func status(code int) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code),
		Message: "the cluster says no", Reason: map[int]metav1.StatusReason{
			http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
			http.StatusForbidden:           metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound,
			http.StatusUnauthorized:       metav1.StatusReasonUnauthorized,
			http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable,
			http.StatusConflict:           metav1.StatusReasonConflict,
		}[code],
	}
}

// Happened returns a copy of the events so far.
func (c *Cluster) Happened() []v1.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.Events)
}

// Answer makes the server answer a request with a status code, 0 for a success. Unlike a write to
// Answers it may be called while requests are under way.
func (c *Cluster) Answer(request string, code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Answers[request] = code
}

// Came returns the requests since the last call.
func (c *Cluster) Came() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := c.requests
	c.requests = nil
	return lines
}

// NewKubeconfig writes a kubeconfig of the cluster to a folder of its own, and returns its path.
func (c *Cluster) NewKubeconfig(t *testing.T) string {
	t.Helper()
	return c.Kubeconfig(t, filepath.Join(t.TempDir(), "kubelet.conf"))
}

// Kubeconfig writes a kubeconfig of the cluster to path, and returns path.
func (c *Cluster) Kubeconfig(t *testing.T, path string) string {
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
