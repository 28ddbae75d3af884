package kubelet

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"node-partition.io/node-partition/tests/testkit"
)

// kubelet serves the Pods API and does nothing by itself: the test sends events.
type kubelet struct {
	podsv1alpha1.UnimplementedPodsServer
	streams chan *stream
}

// stream is one WatchPods.
type stream struct {
	server grpc.ServerStreamingServer[podsv1alpha1.WatchPodsEvent]
	end    chan error
}

func (k *kubelet) WatchPods(_ *podsv1alpha1.WatchPodsRequest, server grpc.ServerStreamingServer[podsv1alpha1.WatchPodsEvent]) error {
	s := &stream{server, make(chan error)}
	select {
	case k.streams <- s:
	case <-server.Context().Done():
		return nil
	}
	select {
	case err := <-s.end:
		return err
	case <-server.Context().Done():
		return nil
	}
}

// node is a kubelet that starts and stops, and a Watcher of it.
type node struct {
	t         *testing.T
	ctx       context.Context
	socket    string
	kubelet   *kubelet
	watcher   *Watcher
	changed   chan struct{}
	connected chan bool
	failed    chan error
	ended     chan error
	cancel    context.CancelFunc
}

func newNode(t *testing.T) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "pods") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	// A test that waits for an event that does not come ends with this deadline.
	deadline, stop := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(stop)
	n := &node{
		t: t, ctx: deadline, socket: filepath.Join(dir, "s"), kubelet: &kubelet{streams: make(chan *stream)},
		changed: make(chan struct{}, 100), connected: make(chan bool, 100), failed: make(chan error, 100), ended: make(chan error, 1),
	}
	n.watcher = NewWatcher(n.socket, func() { n.changed <- struct{}{} }, func(up bool) { n.connected <- up })
	var ctx context.Context
	ctx, n.cancel = context.WithCancel(t.Context())
	go func() { n.ended <- n.watcher.Run(ctx, func(err error) { n.failed <- err }) }()
	t.Cleanup(n.cancel)
	return n
}

// start has the kubelet listen until stop is called.
func (n *node) start() (stop func()) {
	n.t.Helper()
	return testkit.ListenGRPC(n.t, n.socket, func(server *grpc.Server) { podsv1alpha1.RegisterPodsServer(server, n.kubelet) })
}

func next[T any](n *node, what string, from chan T) T {
	n.t.Helper()
	select {
	case value := <-from:
		return value
	case <-n.ctx.Done():
		n.t.Fatalf("waiting for %s: %v", what, n.ctx.Err())
		panic("not reached")
	}
}

func (n *node) failure() error { n.t.Helper(); return next(n, "the failure", n.failed) }

func (n *node) stream() *stream { n.t.Helper(); return next(n, "a stream", n.kubelet.streams) }

func (n *node) send(s *stream, kind podsv1alpha1.EventType, pod []byte) {
	n.t.Helper()
	if err := s.server.Send(&podsv1alpha1.WatchPodsEvent{Type: kind, Pod: pod}); err != nil {
		n.t.Fatal(err)
	}
}

// add sends pods, and sync the end of the list.
func (n *node) add(s *stream, uids ...string) {
	n.t.Helper()
	for _, uid := range uids {
		n.send(s, podsv1alpha1.EventType_ADDED, encode(n.t, uid, "pod-"+uid))
	}
}

func (n *node) sync(s *stream) {
	n.t.Helper()
	n.send(s, podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE, nil)
	if !next(n, "the connection", n.connected) {
		n.t.Fatal("disconnected; want connected")
	}
	next(n, "the change", n.changed)
}

func encode(t *testing.T, uid, name string) []byte {
	t.Helper()
	data, err := (&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: name, Namespace: "kube-system"}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (n *node) want(synced bool, names ...string) {
	n.t.Helper()
	pods, got := n.watcher.Pods()
	have := make([]string, 0, len(pods))
	for uid, pod := range pods {
		if string(uid) != pod.UID || pod.Namespace != "kube-system" {
			n.t.Errorf("%s: %+v", uid, pod)
		}
		have = append(have, pod.Name)
	}
	slices.Sort(have)
	if got != synced || !slices.Equal(have, names) {
		n.t.Errorf("pods %v, all told: %t; want %v, %t", have, got, names, synced)
	}
}

// quiet checks that no callback was called.
func (n *node) quiet() {
	n.t.Helper()
	if c, d := len(n.changed), len(n.connected); c+d > 0 {
		n.t.Errorf("%d changes and %d connections that were not to be told", c, d)
	}
}

// The list counts when it is complete: in a list that is cut off the missing pods must not look
// like ended ones.
func TestWatcherInitialSync(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.start()
	s := n.stream()
	n.want(false)
	n.add(s, "1", "2")
	s.end <- status.Error(codes.Unavailable, "going")
	if err := n.failure(); !strings.Contains(err.Error(), n.socket) || !strings.Contains(err.Error(), "going") {
		t.Errorf("%v; want the socket and the reason", err)
	}
	n.want(false)
	n.quiet() // it was never connected
	s = n.stream()
	n.add(s, "1")
	n.sync(s)
	n.want(true, "pod-1")
}

func TestWatcherEvents(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.start()
	s := n.stream()
	n.add(s, "1")
	n.send(s, podsv1alpha1.EventType_DELETED, encode(t, "1", "pod-1")) // before the list is complete
	n.add(s, "2")
	n.sync(s)
	n.want(true, "pod-2")
	before, _ := n.watcher.Pods()
	for _, step := range []struct {
		kind  podsv1alpha1.EventType
		uid   string
		name  string
		names []string
	}{
		{podsv1alpha1.EventType_ADDED, "3", "three", []string{"pod-2", "three"}},
		{podsv1alpha1.EventType_MODIFIED, "3", "drei", []string{"drei", "pod-2"}},
		{podsv1alpha1.EventType_MODIFIED, "4", "four", []string{"drei", "four", "pod-2"}},
		{podsv1alpha1.EventType_DELETED, "2", "", []string{"drei", "four"}},
		{podsv1alpha1.EventType_DELETED, "nobody", "", []string{"drei", "four"}},
	} {
		n.send(s, step.kind, encode(t, step.uid, step.name))
		next(n, "the change", n.changed)
		n.want(true, step.names...)
	}
	if len(before) != 1 {
		t.Errorf("what was returned before has changed: %v", slices.Collect(maps.Keys(before)))
	}
	n.quiet()
}

// answers asserts whether the kubelet is connected and its list complete.
func (n *node) answers(want bool) {
	n.t.Helper()
	if got := n.watcher.Answers(); got != want {
		n.t.Errorf("the kubelet answers: %t; want %t", got, want)
	}
}

// While the kubelet is away its pods continue to run, and so they stay known until it has sent the
// complete list again.
func TestWatcherKubeletRestarts(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	stop := n.start()
	s := n.stream()
	n.add(s, "1", "2")
	n.answers(false)
	n.sync(s)
	n.answers(true)
	stop()
	if next(n, "the end of the connection", n.connected) {
		t.Fatal("connected; want disconnected")
	}
	n.answers(false)
	if err := n.failure(); !errors.Is(err, errEnded) {
		t.Errorf("%v; want %v", err, errEnded)
	}
	n.want(true, "pod-1", "pod-2")
	n.start()
	s = n.stream()
	n.add(s, "2", "3")
	n.want(true, "pod-1", "pod-2")
	n.quiet()
	n.answers(false)
	n.sync(s)
	n.want(true, "pod-2", "pod-3") // the first ended meanwhile
	n.answers(true)
}

// The kubelet starts after us. That is no failure, and nothing is logged.
func TestWatcherKubeletStartsLater(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.want(false)
	// It retries: any listener gets a connection.
	listener, err := net.Listen("unix", n.socket)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		conn, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close() // it only had to connect
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	n.start()
	s := n.stream()
	n.add(s, "1")
	n.sync(s)
	n.want(true, "pod-1")
	if len(n.failed) > 0 {
		t.Errorf("failed: %v", <-n.failed)
	}
}

func TestWatcherGarbage(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.start()
	s := n.stream()
	n.add(s, "1")
	n.sync(s)
	n.send(s, podsv1alpha1.EventType_MODIFIED, []byte("\xff\xff\xff no pod"))
	if err := n.failure(); !strings.Contains(err.Error(), "event MODIFIED") || !strings.Contains(err.Error(), n.socket) {
		t.Errorf("%v; want the event and the socket", err)
	}
	if next(n, "the end of the connection", n.connected) {
		t.Fatal("connected; want disconnected")
	}
	n.want(true, "pod-1")
	// Before the list is complete.
	s = n.stream()
	n.send(s, podsv1alpha1.EventType_ADDED, []byte{0x0a, 0x7f})
	if n.failure() == nil {
		t.Error("no failure")
	}
	n.want(true, "pod-1")
	n.quiet()
	// A kubelet that works again.
	s = n.stream()
	n.add(s, "2")
	n.sync(s)
	n.want(true, "pod-2")
}

// A kubelet without the Pods API behind the socket.
func TestWatcherNoPodsAPI(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	listener, err := net.Listen("unix", n.socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	go func() { _ = server.Serve(listener) }() // it ends with Stop
	defer server.Stop()
	if err := n.failure(); status.Code(err) != codes.Unimplemented {
		t.Errorf("%v; want Unimplemented", err)
	}
	n.want(false)
	n.quiet()
}

func TestWatcherContextEnds(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.start()
	s := n.stream()
	n.sync(s)
	n.cancel()
	if err := next(n, "the end", n.ended); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want %v", err, context.Canceled)
	}
	if len(n.failed) > 0 {
		t.Errorf("failed: %v; the answer to it was to end", <-n.failed)
	}
}
