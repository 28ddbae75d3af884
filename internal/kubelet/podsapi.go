package kubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"
)

// PodsSocket is the socket of the kubelet's Pods API (DefaultPodsAPISocket below its root
// directory; seen with 1.37.0).
const PodsSocket = "/var/lib/kubelet/pods-api/pods-api.sock"

// Watcher keeps the pods of the kubelet in memory.
type Watcher struct {
	socket    string
	changed   func()
	connected func(bool)

	mu     sync.Mutex
	pods   map[types.UID]*Pod
	synced bool
	whole  bool // the present stream has sent its list
}

// NewWatcher prepares to follow the kubelet at a socket. changed is called after each change of the
// result of Pods. connected is called when the list is complete after a connection, and when the
// connection ends. Both must return at once.
func NewWatcher(socket string, changed func(), connected func(bool)) *Watcher {
	return &Watcher{socket: socket, changed: changed, connected: connected, pods: map[types.UID]*Pod{}}
}

// Pods returns the pods by UID, and whether the kubelet has ever sent the complete list. While the
// kubelet is away they are the last ones that it sent, because pods continue to run: their
// requests, priority and owner hold on. Their conditions, and which pods there are, are of then:
// ask Answers. The pods must not be changed.
func (w *Watcher) Pods() (map[types.UID]*Pod, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.pods), w.synced
}

// Answers reports whether the kubelet is connected now and has sent the complete list since. The
// kubelet sends none before it has read all its sources of pods (validateReady,
// pkg/kubelet/apis/pods/server.go, 1.37).
func (w *Watcher) Answers() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.whole
}

// Run follows the kubelet until ctx ends, and reconnects whenever the stream ends. The kubelet may
// be started long after us, or have no Pods API at all. failed is called at each end of a stream,
// for the log.
func (w *Watcher) Run(ctx context.Context, failed func(error)) error {
	conn, err := grpc.NewClient("unix://"+w.socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay:  100 * time.Millisecond,
				Multiplier: 1.6,
				Jitter:     0.2,
				MaxDelay:   5 * time.Second,
			},
			MinConnectTimeout: time.Second,
		}))
	if err != nil {
		return fmt.Errorf("kubelet's Pods API: %s: %w", w.socket, err)
	}
	defer conn.Close()
	client := podsv1alpha1.NewPodsClient(conn)
	again := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 1 << 30, Cap: 5 * time.Second}
	delay := again.DelayFunc()
	for {
		whole, err := w.follow(ctx, client)
		//guard: a list of an ended stream is no answer of the kubelet
		w.lost()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if whole {
			w.connected(false)
			delay = again.DelayFunc()
		}
		failed(fmt.Errorf("kubelet's Pods API: %s: %w", w.socket, err))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(delay()):
		}
	}
}

// errEnded means that the kubelet ended the stream, as it does when it stops.
var errEnded = errors.New("the kubelet ended the stream")

// follow reads one stream to its end and reports whether its list was complete. Until then the pods
// of a stream are collected beside the known ones. So a pod that ended while we were not connected
// is dropped, and none is missing in between.
func (w *Watcher) follow(ctx context.Context, client podsv1alpha1.PodsClient) (whole bool, err error) {
	stream, err := client.WatchPods(ctx, &podsv1alpha1.WatchPodsRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return false, err
	}
	first := map[types.UID]*Pod{}
	for {
		event, err := stream.Recv()
		if err != nil {
			return whole, fmt.Errorf("%w: %w", errEnded, err)
		}
		if event.Type == podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE {
			w.replace(first)
			whole = true
			w.connected(true)
			w.changed()
			continue
		}
		var pod v1.Pod
		if err := pod.Unmarshal(event.Pod); err != nil {
			return whole, fmt.Errorf("event %s: %w", event.Type, err)
		}
		if !whole {
			apply(first, event.Type, &pod)
			continue
		}
		w.mu.Lock()
		apply(w.pods, event.Type, &pod)
		w.mu.Unlock()
		w.changed()
	}
}

func apply(pods map[types.UID]*Pod, kind podsv1alpha1.EventType, pod *v1.Pod) {
	if kind == podsv1alpha1.EventType_DELETED {
		delete(pods, pod.UID)
		return
	}
	pods[pod.UID] = newPod(pod)
}

func (w *Watcher) replace(pods map[types.UID]*Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods, w.synced, w.whole = pods, true, true
}

// lost is called when a stream has ended.
func (w *Watcher) lost() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.whole = false
}
