package podmove

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var podA = types.NamespacedName{Namespace: "kube-system", Name: "a"}

// static makes the first pod of a host one that is not restarted without an order.
func (h *host) static() {
	for i := range h.sandboxes {
		h.sandboxes[i].Static = true
	}
}

// moveNow asks for a move in the background.
func moveNow(ctx context.Context, r *Reconciler, pod types.NamespacedName) <-chan error {
	answer := make(chan error, 1)
	go func() {
		slice, err := r.MoveNow(ctx, pod)
		if err == nil && slice != filepath.Base(guestA) {
			err = errors.New("said to be in " + slice)
		}
		answer <- err
	}()
	return answer
}

// left counts the orders that have not been answered.
func (r *Reconciler) left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.orders)
	for _, u := range r.underway {
		n += len(u.orders)
	}
	return n
}

// unanswered fails the test if there is an answer already.
func unanswered(t *testing.T, answer <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-answer:
		t.Fatalf("answered %v, want that it waits", err)
	default:
	}
}

// TestMoveNow: a static pod stays until an operator asks for it, and the answer comes when it is
// Ready again.
func TestMoveNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.comesBack = guestA
		h.static()
		h.ready("one", true)
		r, e := h.reconciler(Working, members)
		start(t, r)
		<-time.After(time.Hour)
		synctest.Wait()
		if n := h.restarts(); n != 0 || r.Report().Pods[0].Reason != ReasonNextStart {
			t.Fatalf("%d restarts, reported %+v; want it to wait", n, r.Report().Pods)
		}
		answer := moveNow(t.Context(), r, podA)
		<-time.After(5 * time.Second)
		unanswered(t, answer)
		h.ready("one", false)
		<-time.After(time.Minute)
		unanswered(t, answer)
		h.ready("again", true)
		r.Wake()
		if err := <-answer; err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Hour)
		synctest.Wait()
		if n := h.restarts(); n != 1 || len(e.failed) != 0 {
			t.Errorf("%d restarts, said %v; want one", n, e.failed)
		}
		if err := <-moveNow(t.Context(), r, podA); err != nil || h.restarts() != 1 {
			t.Errorf("a pod in its place: %v, %d restarts; want nothing to be done", err, h.restarts())
		}
	})
}

// TestMoveNowRefuses: an order that would do harm or nothing is refused at once, with the reason,
// and is not kept.
func TestMoveNowRefuses(t *testing.T) {
	tests := []struct {
		name   string
		nri    NRIState
		change func(*host)
		pod    types.NamespacedName
		want   error
		text   string
	}{
		{"unknown pod", Working, nil, types.NamespacedName{Namespace: "kube-system", Name: "b"}, ErrNoPod, "kube-system/b"},
		{"pod of another namespace", Working, nil, types.NamespacedName{Namespace: "default", Name: "a"}, ErrNoPod, "default/a"},
		{"no NRI", Awaited, nil, podA, ErrNotMoved, "no-nri"},
		{"kubelet does not tell", Working, func(h *host) { h.pods = nil }, podA, ErrNotMoved, "unknown-restart-policy"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t)
				h.comesBack = guestA
				h.static()
				if test.change != nil {
					test.change(h)
				}
				r, _ := h.reconciler(test.nri, members)
				start(t, r)
				<-time.After(time.Minute)
				asked := time.Now()
				err := <-moveNow(t.Context(), r, test.pod)
				if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
					t.Errorf("answered %v, want %v with %q", err, test.want, test.text)
				}
				if took := time.Since(asked); took > maxDebounce {
					t.Errorf("answered after %s", took)
				}
				<-time.After(time.Hour)
				synctest.Wait()
				if n := h.restarts(); n != 0 || r.left() != 0 {
					t.Errorf("%d restarts, %d orders left", n, r.left())
				}
			})
		})
	}
}

// TestMoveNowFails: an order is good for one attempt.
func TestMoveNowFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.comesBack = homeA
		h.static()
		r, _ := h.reconciler(Working, members)
		start(t, r)
		<-time.After(time.Minute)
		err := <-moveNow(t.Context(), r, podA)
		if err == nil || !strings.Contains(err.Error(), "came back in") {
			t.Fatalf("answered %v, want where it came back", err)
		}
		<-time.After(24 * time.Hour)
		synctest.Wait()
		if n := h.restarts(); n != 1 {
			t.Fatalf("%d restarts, want 1", n)
		}
		// The cause of the failure is fixed.
		h.mu.Lock()
		h.comesBack = guestA
		h.mu.Unlock()
		if err := <-moveNow(t.Context(), r, podA); err != nil || h.restarts() != 2 {
			t.Errorf("asked again: %v, %d restarts", err, h.restarts())
		}
	})
}

// TestMoveNowIsWithdrawn: once the caller stops waiting, nothing is moved later, but a move that
// has begun goes on.
func TestMoveNowIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.comesBack = guestA
		h.static()
		h.pods[uidA].Initializing = true
		r, _ := h.reconciler(Working, members)
		start(t, r)
		ctx, cancel := context.WithCancel(t.Context())
		answer := moveNow(ctx, r, podA)
		<-time.After(time.Minute)
		unanswered(t, answer)           // its init containers run
		second := moveNow(ctx, r, podA) // of another caller
		<-time.After(time.Second)
		unanswered(t, second)
		cancel()
		if err := <-second; !errors.Is(err, ErrNotMoved) {
			t.Errorf("the second, withdrawn: %v", err)
		}
		if err := <-answer; !errors.Is(err, ErrNotMoved) || !errors.Is(err, context.Canceled) {
			t.Errorf("withdrawn: %v", err)
		}
		h.ready("one", true)
		h.mu.Lock()
		h.pods[uidA].Initializing = false
		h.mu.Unlock()
		r.Wake()
		<-time.After(time.Hour)
		synctest.Wait()
		if n := h.restarts(); n != 0 {
			t.Fatalf("%d restarts after it was withdrawn", n)
		}

		ctx, cancel = context.WithCancel(t.Context())
		answer = moveNow(ctx, r, podA)
		<-time.After(5 * time.Second)
		synctest.Wait()
		cancel()
		if err := <-answer; err == nil || errors.Is(err, ErrNotMoved) {
			t.Errorf("begun and not waited for: %v", err)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if pods := r.Report().Pods; h.restarts() != 1 || pods[0].Misplaced != 0 || r.left() != 0 {
			t.Errorf("%d restarts, reported %+v, %d orders left; want that it went on", h.restarts(), pods, r.left())
		}
	})
}

// TestMoveNowNeverReady: the answer says that a pod is in its place and does not become Ready.
func TestMoveNowNeverReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.comesBack = guestA
		h.static()
		h.ready("one", true)
		r, _ := h.reconciler(Working, members)
		start(t, r)
		answer := moveNow(t.Context(), r, podA)
		<-time.After(5 * time.Second)
		h.ready("again", false)
		if err := <-answer; err == nil || !strings.Contains(err.Error(), "not Ready again") {
			t.Errorf("answered %v", err)
		}
	})
}
