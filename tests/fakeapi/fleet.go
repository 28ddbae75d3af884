package fakeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// Fleet is an API server with objects of any kind, for tests of the dispatcher: lists in pages,
// watches, preconditions, merge patches. It is the transport of a client, without a network, so
// that a test may have its own clock (testing/synctest).
type Fleet struct {
	mu          sync.Mutex
	version     int
	collections map[string]map[string]map[string]any // by path, then by name
	changes     []change
	first       int // the version of the first of changes that is kept
	moved       chan struct{}
	outage      chan struct{} // nil while the server is there, closed at its end
	hangs       bool
	// Before is called with each request that writes, such as "POST
	// /apis/batch/v1/namespaces/n/jobs". A request whose error it returns is not answered. It has had
	// its effect if after is true. Before may be nil.
	Before func(request string) (after bool, err error)
	// Refuse is called with each request. A status code other than 0 is the answer. It may be nil.
	Refuse func(request string, r *http.Request) int
	// Changed is called after each change of an object with a copy of it, outside of all locks. It may
	// be nil.
	Changed func(kind watch.EventType, object map[string]any)
}

// event is an event of a watch.
type event struct {
	Type   watch.EventType `json:"type"`
	Object any             `json:"object"`
}

// change is a change of an object.
type change struct {
	version    int
	collection string
	kind       watch.EventType
	object     map[string]any
}

// NewFleet returns an API server without objects.
func NewFleet() *Fleet {
	return &Fleet{collections: map[string]map[string]map[string]any{}, moved: make(chan struct{})}
}

// Config returns the configuration of a client.
func (f *Fleet) Config() *rest.Config {
	return &rest.Config{Host: "http://fleet.example", Transport: f}
}

// Put makes an object, or replaces the one of its name. collection is a path, such as
// /api/v1/nodes.
func (f *Fleet) Put(collection string, object any) {
	data, err := json.Marshal(object)
	if err != nil {
		panic(err) // objects of Kubernetes can be encoded
	}
	var plain map[string]any
	if err := json.Unmarshal(data, &plain); err != nil {
		panic(err)
	}
	f.mu.Lock()
	kind := watch.Added
	if old := f.collections[collection][name(plain)]; old != nil {
		kind = watch.Modified
		if metadata(plain)["uid"] == nil {
			metadata(plain)["uid"] = metadata(old)["uid"]
		}
	}
	done := f.store(kind, collection, plain)
	f.mu.Unlock()
	done()
}

// Drop deletes an object.
func (f *Fleet) Drop(collection, name string) {
	f.mu.Lock()
	done := func() {}
	if object := f.collections[collection][name]; object != nil {
		done = f.store(watch.Deleted, collection, object)
	}
	f.mu.Unlock()
	done()
}

// Get decodes a copy of an object, and reports whether it is there.
func (f *Fleet) Get(collection, name string, into any) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	object := f.collections[collection][name]
	if object == nil {
		return false
	}
	if err := json.Unmarshal(encoded(object), into); err != nil {
		panic(err)
	}
	return true
}

// Names returns the names of the objects of a collection, sorted.
func (f *Fleet) Names(collection string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.collections[collection]))
}

// Leave makes the server go away: connections break, and new ones are refused, or hang. Return
// brings it back, with its objects.
func (f *Fleet) Leave(hangs bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.outage == nil {
		f.outage, f.hangs = make(chan struct{}), hangs
		f.wake()
	}
}

// Return ends Leave.
func (f *Fleet) Return() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.outage != nil {
		close(f.outage)
		f.outage = nil
		f.wake()
	}
}

// Forget makes watches that have not seen the last change begin again, as after a compaction of
// etcd, and breaks all connections.
func (f *Fleet) Forget() {
	f.Leave(false)
	f.mu.Lock()
	f.version++
	f.changes, f.first = nil, f.version+1
	f.mu.Unlock()
	f.Return()
}

// errRefused is the error of a connection to a server that is away.
var errRefused = errors.New("connect: connection refused")

// RoundTrip implements http.RoundTripper.
func (f *Fleet) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close()
	}
	line := r.Method + " " + r.URL.Path
	if r.URL.Query().Get("watch") == "true" {
		line = "WATCH " + r.URL.Path
	}
	f.mu.Lock()
	away, hangs, before, refuse := f.outage != nil, f.hangs, f.Before, f.Refuse
	f.mu.Unlock()
	if away && hangs {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if away {
		return nil, errRefused
	}
	if refuse != nil {
		if code := refuse(line, r); code != 0 {
			return answer(r, code, status(code)), nil
		}
	}
	if before != nil && r.Method != http.MethodGet {
		if after, err := before(line); err != nil {
			if after {
				f.serve(r, body)
			}
			return nil, err
		}
	}
	if strings.HasPrefix(line, "WATCH ") {
		return f.watch(r), nil
	}
	return f.serve(r, body), nil
}

// answer returns a response with an object.
func answer(r *http.Request, code int, object any) *http.Response {
	data, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data)),
		ContentLength: int64(len(data)), Request: r,
	}
}

// serve answers a request other than a watch.
func (f *Fleet) serve(r *http.Request, body []byte) *http.Response {
	f.mu.Lock()
	code, object, done := f.act(r, body)
	response := answer(r, code, object)
	f.mu.Unlock()
	for _, d := range done {
		d()
	}
	return response
}

// collectionOf splits a path into a collection and the name of an object, empty for the collection.
func collectionOf(p string) (collection, name string) {
	parts := strings.Split(strings.Trim(p, "/"), "/")
	for i, part := range parts {
		switch part {
		case "nodes", "jobs", "pods", "leases", "configmaps":
			if i+1 < len(parts) {
				return path.Dir(p), parts[i+1]
			}
			return p, ""
		}
	}
	return p, ""
}

// act carries a request out. It is called with mu held. What it returns last is to be called
// without.
func (f *Fleet) act(r *http.Request, body []byte) (code int, object any, done []func()) {
	collection, called := collectionOf(r.URL.Path)
	present := f.collections[collection][called]
	var sent map[string]any
	if len(body) > 0 {
		if err := json.Unmarshal(body, &sent); err != nil {
			return http.StatusBadRequest, status(http.StatusBadRequest), nil
		}
	}
	refuse := func(code int, reason metav1.StatusReason) (int, any, []func()) {
		s := status(code)
		s.Reason = reason
		return code, s, nil
	}
	switch {
	case r.Method == http.MethodPost:
		if f.collections[collection][name(sent)] != nil {
			return refuse(http.StatusConflict, metav1.StatusReasonAlreadyExists)
		}
		delete(metadata(sent), "resourceVersion")
		done = append(done, f.store(watch.Added, collection, sent))
		return http.StatusCreated, f.collections[collection][name(sent)], done
	case r.Method == http.MethodDelete && called == "":
		for _, o := range f.selected(collection, r) {
			done = append(done, f.store(watch.Deleted, collection, o))
		}
		return http.StatusOK, metav1.Status{Status: metav1.StatusSuccess}, done
	case called == "":
		return f.list(collection, r)
	case present == nil:
		return refuse(http.StatusNotFound, metav1.StatusReasonNotFound)
	case r.Method == http.MethodGet:
		return http.StatusOK, present, nil
	case r.Method == http.MethodPut:
		if metadata(sent)["resourceVersion"] != metadata(present)["resourceVersion"] {
			return refuse(http.StatusConflict, metav1.StatusReasonConflict)
		}
		done = append(done, f.store(watch.Modified, collection, sent))
		return http.StatusOK, f.collections[collection][called], done
	case r.Method == http.MethodPatch:
		patched := merge(present, sent)
		if metadata(patched)["uid"] != metadata(present)["uid"] {
			s := status(http.StatusUnprocessableEntity)
			s.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "metadata.uid"}}}
			return http.StatusUnprocessableEntity, s, nil
		}
		done = append(done, f.store(watch.Modified, collection, patched))
		return http.StatusOK, f.collections[collection][called], done
	case r.Method == http.MethodDelete:
		wanted, _ := sent["preconditions"].(map[string]any)
		if version := wanted["resourceVersion"]; version != nil && version != metadata(present)["resourceVersion"] {
			return refuse(http.StatusConflict, metav1.StatusReasonConflict)
		}
		done = append(done, f.store(watch.Deleted, collection, present))
		return http.StatusOK, metav1.Status{Status: metav1.StatusSuccess}, done
	}
	return http.StatusMethodNotAllowed, status(http.StatusMethodNotAllowed), nil
}

// list returns a page of a collection. A token to continue has the name of the last object.
func (f *Fleet) list(collection string, r *http.Request) (code int, object any, done []func()) {
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	from := r.URL.Query().Get("continue")
	all := f.selected(collection, r)
	start := 0
	for from != "" && start < len(all) && name(all[start]) <= from {
		start++
	}
	page, meta := all[start:], map[string]any{"resourceVersion": strconv.Itoa(f.version)}
	if limit > 0 && len(page) > limit {
		page = page[:limit]
		meta["continue"] = name(page[limit-1])
	}
	return http.StatusOK, map[string]any{"kind": "List", "apiVersion": "v1", "metadata": meta, "items": page}, nil
}

// selected returns the objects that a request selects, by their names.
func (f *Fleet) selected(collection string, r *http.Request) []map[string]any {
	found := []map[string]any{}
	for _, n := range slices.Sorted(maps.Keys(f.collections[collection])) {
		if object := f.collections[collection][n]; matches(object, r) {
			found = append(found, object)
		}
	}
	return found
}

// matches reports whether the selectors of a request select an object.
func matches(object map[string]any, r *http.Request) bool {
	query := r.URL.Query()
	if field := query.Get("fieldSelector"); field != "" && field != "metadata.name="+name(object) {
		return false
	}
	selector, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		panic(err) // the client has made it
	}
	set := labels.Set{}
	of, _ := metadata(object)["labels"].(map[string]any)
	for key, value := range of {
		set[key] = fmt.Sprint(value)
	}
	return selector.Matches(set)
}

// store stores an object, and tells it to those who watch. It is called with mu held. What it
// returns is to be called without.
func (f *Fleet) store(kind watch.EventType, collection string, object map[string]any) func() {
	f.version++
	object = merge(object, nil)
	metadata(object)["resourceVersion"] = strconv.Itoa(f.version)
	if metadata(object)["uid"] == nil || metadata(object)["uid"] == "" {
		metadata(object)["uid"] = fmt.Sprintf("uid-%d", f.version)
	}
	if f.collections[collection] == nil {
		f.collections[collection] = map[string]map[string]any{}
	}
	f.collections[collection][name(object)] = object
	if kind == watch.Deleted {
		delete(f.collections[collection], name(object))
	}
	f.changes = append(f.changes, change{f.version, collection, kind, object})
	f.wake()
	changed, copied := f.Changed, merge(object, nil) // watches still read the object
	return func() {
		if changed != nil {
			changed(kind, copied)
		}
	}
}

// wake lets watches look for changes. It is called with mu held.
func (f *Fleet) wake() {
	close(f.moved)
	f.moved = make(chan struct{})
}

// watch answers with the changes after a version, until the client or the server ends it.
func (f *Fleet) watch(r *http.Request) *http.Response {
	after, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	ctx, cancel := context.WithCancel(r.Context())
	response := answer(r, http.StatusOK, nil)
	response.ContentLength = -1
	response.Body = &stream{fleet: f, request: r, after: after, ctx: ctx, cancel: cancel}
	return response
}

// stream is the body of the answer to a watch.
type stream struct {
	fleet   *Fleet
	request *http.Request
	after   int
	next    int // the index in the changes to go on from
	buffer  bytes.Buffer
	ctx     context.Context
	cancel  context.CancelFunc
}

// Read waits for the next change.
func (s *stream) Read(p []byte) (int, error) {
	for s.buffer.Len() == 0 {
		moved, err := s.look()
		if err != nil {
			return 0, err
		}
		if s.buffer.Len() > 0 {
			break
		}
		select {
		case <-moved:
		case <-s.ctx.Done():
			return 0, s.ctx.Err()
		}
	}
	return s.buffer.Read(p)
}

// look writes the changes that are new to the buffer.
func (s *stream) look() (moved chan struct{}, err error) {
	f := s.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.outage != nil && f.hangs:
		return f.moved, nil
	case f.outage != nil:
		return nil, io.ErrUnexpectedEOF
	}
	if s.after+1 < f.first {
		gone := status(http.StatusGone)
		gone.Reason = metav1.StatusReasonExpired
		s.write(watch.Error, gone)
		s.after = f.version
		return f.moved, nil
	}
	if s.next > len(f.changes) {
		s.next = 0
	}
	for ; s.next < len(f.changes); s.next++ {
		c := f.changes[s.next]
		if c.version > s.after && c.collection == s.request.URL.Path && matches(c.object, s.request) {
			s.write(c.kind, c.object)
		}
		s.after = max(s.after, c.version)
	}
	return f.moved, nil
}

func (s *stream) write(kind watch.EventType, object any) {
	if err := json.NewEncoder(&s.buffer).Encode(event{kind, object}); err != nil {
		panic(err)
	}
}

// Close ends the watch.
func (s *stream) Close() error {
	s.cancel()
	return nil
}

// metadata returns the metadata of an object.
func metadata(object map[string]any) map[string]any {
	m, ok := object["metadata"].(map[string]any)
	if !ok {
		m = map[string]any{}
		object["metadata"] = m
	}
	return m
}

func name(object map[string]any) string {
	n, _ := metadata(object)["name"].(string)
	return n
}

// merge returns an object with a JSON merge patch (RFC 7396). It shares nothing with either that is
// changed.
func merge(object, patch map[string]any) map[string]any {
	merged := map[string]any{}
	for key, value := range object {
		if inner, ok := value.(map[string]any); ok {
			value = merge(inner, nil)
		}
		merged[key] = value
	}
	for key, value := range patch {
		inner, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(merged, key)
		case isObject:
			under, _ := merged[key].(map[string]any)
			merged[key] = merge(under, inner)
		default:
			merged[key] = value
		}
	}
	return merged
}

func encoded(object map[string]any) []byte {
	data, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return data
}
