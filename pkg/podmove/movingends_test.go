package podmove

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/pkg/podmove/livemove"
)

// moves returns the requests to restart or to move a container.
func (h *fakeHost) moves() []string {
	return slices.DeleteFunc(h.all(), func(what string) bool {
		return !strings.HasPrefix(what, "restart ") && !strings.HasPrefix(what, "live ")
	})
}

// TestReconcilerMoveEndsBetween: while the first container of a pod is restarted, the runtime stops
// to serve NRI, or the pod is deleted. The second container is not stopped: it would come back in
// the same place, or not at all.
func TestReconcilerMoveEndsBetween(t *testing.T) {
	for name, between := range map[string]func(*fakeHost, *atomic.Pointer[NRIState]){
		"NRI goes away": func(_ *fakeHost, nri *atomic.Pointer[NRIState]) { away := Awaited; nri.Store(&away) },
		"the pod ends":  func(h *fakeHost, _ *atomic.Pointer[NRIState]) { h.deleted() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t)
				h.comesBack = partitionA
				h.secondContainer()
				r, e := h.reconciler(Working, members)
				var nri atomic.Pointer[NRIState]
				working := Working
				nri.Store(&working)
				r.options.NRI = func() NRIState { return *nri.Load() }
				start(t, r)
				h.awaitRestart()
				between(h, &nri)
				<-time.After(20 * time.Minute)
				synctest.Wait()
				if got := h.moves(); !slices.Equal(got, []string{"restart one 3s"}) || len(e.failed) > 0 {
					t.Errorf("did %q, failures %v; want the first container alone", got, e.failed)
				}
			})
		})
	}
}

// deleted has the kubelet report that the first pod is being deleted.
func (h *fakeHost) deleted() {
	h.mu.Lock()
	defer h.mu.Unlock()
	pod := *h.pods[uidA]
	pod.Terminating = true
	h.pods = maps.Clone(h.pods)
	h.pods[uidA] = &pod
}

// TestReconcilerDeletedMeanwhile: a pod that is deleted while its container is stopped to be moved
// does not have to come back, and the next pod is restarted.
func TestReconcilerDeletedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.secondPod()
		h.ready("one", true)
		r, e := h.reconciler(Working, members)
		start(t, r)
		h.awaitRestart()
		h.deleted()
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if got := h.moves(); !slices.Equal(got, []string{"restart one 3s", "restart two 3s"}) || len(e.failed) > 0 {
			t.Errorf("did %q, failures %v; want both pods", got, e.failed)
		}
	})
}

// TestReconcilerStopFails: the runtime fails when it has asked the container to end, which takes
// two seconds. The next pod waits until the pod is Ready again.
func TestReconcilerStopFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.comesBack = partitionA
		h.secondPod()
		h.ready("one", true)
		r, _ := h.reconciler(Working, members)
		r.options.Stop = func(ctx context.Context, id string, grace time.Duration) error {
			time.AfterFunc(2*time.Second, func() { _ = h.Restart(ctx, id, grace) })
			return errors.New("the runtime has restarted")
		}
		start(t, r)
		h.awaitRestart()
		h.ready("again", false)
		<-time.After(time.Hour)
		synctest.Wait()
		if got := h.moves(); !slices.Equal(got, []string{"restart one 3s"}) {
			t.Errorf("did %q; want the second pod to wait", got)
		}
		h.ready("again", true)
		<-time.After(time.Minute)
		synctest.Wait()
		if got := h.moves(); !slices.Equal(got, []string{"restart one 3s", "restart two 3s"}) {
			t.Errorf("did %q; want the second pod too", got)
		}
	})
}

// listsLate is a runtime whose list of containers comes when a move that was under way is over.
type listsLate struct {
	*fakeHost
	moving func() bool
	let    chan struct{}
}

func (l *listsLate) Containers(ctx context.Context) ([]cri.Container, error) {
	containers, err := l.fakeHost.Containers(ctx)
	if l.moving() {
		close(l.let)
		for l.moving() {
			<-time.After(time.Millisecond)
		}
	}
	return containers, err
}

// TestReconcilerMoveEndsMeanwhile: a live move ends while a reconcile reads where the containers
// are. The container is not moved again from where it was.
func TestReconcilerMoveEndsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		r, e := h.reconciler(Unavailable, members)
		let := make(chan struct{})
		r.options.Gatherer.Runtime = &listsLate{h, r.isMoving, let}
		r.options.Live = func(ctx context.Context, q livemove.Request) error {
			<-let
			return h.Live(ctx, q)
		}
		start(t, r)
		<-time.After(time.Minute)
		synctest.Wait()
		if got := h.moves(); len(got) != 1 || len(e.failed) > 0 {
			t.Errorf("did %q, failures %v; want one move", got, e.failed)
		}
	})
}
