package podmove

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
)

var podA = types.NamespacedName{Namespace: "kube-system", Name: "a"}

// static makes the first pod of a host one that is not restarted without an order.
func (h *fakeHost) static() {
	for i := range h.sandboxes {
		h.sandboxes[i].Static = true
	}
}

// moveNow asks for a move in the background.
func moveNow(ctx context.Context, r *Reconciler, pod types.NamespacedName) <-chan error {
	answer := make(chan error, 1)
	go func() {
		where, err := r.MoveNow(ctx, pod)
		if err == nil && where != filepath.Base(partitionA) {
			err = errors.New("reported in " + where)
		}
		answer <- err
	}()
	return answer
}

// left counts the orders that have not been answered.
func (r *Reconciler) left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.orders)
}

// reconciling returns a host, which change has changed, and its reconciler, which runs.
func reconciling(t *testing.T, nri NRIState, change func(*fakeHost)) (*fakeHost, *Reconciler, *events) {
	t.Helper()
	h := newHost(t)
	change(h)
	r, e := h.reconciler(nri, members)
	start(t, r)
	return h, r, e
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
		h, r, e := reconciling(t, Working, func(h *fakeHost) {
			h.comesBack = partitionA
			h.static()
			h.ready("one", true)
		})
		<-time.After(time.Hour)
		synctest.Wait()
		if n := h.restarts(); n != 0 || r.Report().Pods[0].Reason != report.NextStart {
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
			t.Errorf("%d restarts, failures %v; want one restart", n, e.failed)
		}
		const there = "reported in kubepods-system-burstable-pod11111111_2222_3333_4444_555555555555.slice already, and belongs to the partition system"
		if err := <-moveNow(t.Context(), r, podA); err == nil || err.Error() != there || h.restarts() != 1 {
			t.Errorf("a pod in its place: %v, %d restarts; want %s", err, h.restarts(), there)
		}
	})
}

// TestMoveNowOvertaken: the configuration changes between the decision to follow an order and the
// move. The order is followed by the next reconcile, because the pod belongs where it did.
func TestMoveNowOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.comesBack = partitionA
		h.static()
		h.ready("one", true)
		r, e := h.reconciler(Working, members)
		change := func() {}
		r.options.Placer = &changing{&h.placer, func() { change() }}
		start(t, r)
		<-time.After(time.Minute)
		synctest.Wait()
		change = sync.OnceFunc(func() { r.SetConfig(inSystem("kube-system", "monitoring")) })
		answer := moveNow(t.Context(), r, podA)
		<-time.After(time.Minute)
		unanswered(t, answer)
		h.ready("again", true)
		r.Wake()
		select {
		case err := <-answer:
			if err != nil || h.restarts() != 1 || len(e.failed) > 0 {
				t.Errorf("%v, %d restarts, failures %v", err, h.restarts(), e.failed)
			}
		case <-time.After(10 * time.Minute):
			t.Error("no answer: the order was lost")
		}
	})
}

// TestMoveNowRefused: an order that would do harm or nothing is refused at once, with the reason,
// and is not kept.
func TestMoveNowRefused(t *testing.T) {
	tests := []struct {
		name   string
		nri    NRIState
		change func(*fakeHost)
		pod    types.NamespacedName
		want   error
		text   string
	}{
		{"unknown pod", Working, nil, types.NamespacedName{Namespace: "kube-system", Name: "b"}, ErrNoPod, "kube-system/b"},
		{"pod of another namespace", Working, nil, types.NamespacedName{Namespace: "default", Name: "a"}, ErrNoPod, "default/a"},
		{"no NRI", Awaited, nil, podA, ErrNotMoved, "no-nri"},
		{"kubelet is away", Working, func(h *fakeHost) { h.silent = true }, podA, ErrNotMoved, "no-kubelet"},
		{"kubelet does not report", Working, func(h *fakeHost) { h.pods = nil }, podA, ErrNotMoved, "unknown-restart-policy"},
		{"the runtime does not answer", Working, func(h *fakeHost) { h.err = errors.New("connection refused") }, podA, ErrNotMoved, "connection refused"},
		{"between two starts", Working, func(h *fakeHost) {
			h.containers[0].State = cri.Exited
			removeAll(h.t, h.root+"/"+defaultA+"/cri-containerd-one.scope")
		}, podA, ErrNotMoved, "none of its containers runs"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, r, _ := reconciling(t, test.nri, func(h *fakeHost) {
					h.comesBack = partitionA
					h.static()
					if test.change != nil {
						test.change(h)
					}
				})
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
		h, r, _ := reconciling(t, Working, func(h *fakeHost) {
			h.comesBack = defaultA
			h.static()
		})
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
		h.comesBack = partitionA
		h.mu.Unlock()
		if err := <-moveNow(t.Context(), r, podA); err != nil || h.restarts() != 2 {
			t.Errorf("asked again: %v, %d restarts", err, h.restarts())
		}
	})
}

// TestMoveNowWithdrawn: once the caller stops waiting, nothing is moved later, but a move that
// has begun continues.
func TestMoveNowWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, r, _ := reconciling(t, Working, func(h *fakeHost) {
			h.comesBack = partitionA
			h.static()
			h.pods[uidA].Initializing = true
		})
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
			t.Errorf("%d restarts, reported %+v, %d orders left; want that it continued", h.restarts(), pods, r.left())
		}
	})
}

// TestMoveNowNeverReady: the answer says that a pod is in its place and does not become Ready.
func TestMoveNowNeverReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, r, _ := reconciling(t, Working, func(h *fakeHost) {
			h.comesBack = partitionA
			h.static()
			h.ready("one", true)
		})
		answer := moveNow(t.Context(), r, podA)
		<-time.After(5 * time.Second)
		h.ready("again", false)
		if err := <-answer; err == nil || !strings.Contains(err.Error(), "not Ready again") {
			t.Errorf("answered %v", err)
		}
	})
}

// TestMoveNowPodDeleted: the pod is deleted while its container is restarted.
func TestMoveNowPodDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, r, _ := reconciling(t, Working, func(h *fakeHost) {
			h.static()
			h.ready("one", true)
		})
		<-time.After(time.Minute)
		time.AfterFunc(5*time.Second, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.sandboxes, h.containers = nil, nil
			r.Wake()
		})
		if _, err := r.MoveNow(t.Context(), podA); !errors.Is(err, ErrNoPod) || !strings.Contains(err.Error(), "deleted while it was moved") {
			t.Errorf("answered %v", err)
		}
	})
}

// TestMoveNowLive: a live move that had failed is ordered, and succeeds at once.
func TestMoveNowLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, r, _ := reconciling(t, Unavailable, func(h *fakeHost) { h.broken = errors.New("systemd is busy") })
		<-time.After(10 * time.Minute) // its next attempt is up to 30 minutes away
		synctest.Wait()
		h.broken = nil
		if pods := r.Report().Pods; len(pods) != 1 || pods[0].Reason != report.Failed {
			t.Fatalf("reported %+v", pods)
		}
		asked := time.Now()
		if err := <-moveNow(t.Context(), r, podA); err != nil || time.Since(asked) > time.Minute {
			t.Errorf("answered %v after %s", err, time.Since(asked))
		}
	})
}

// TestMoveNowDuringMove: the service is already restarting the pod. The order is answered at
// the end of that move.
func TestMoveNowDuringMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, r, _ := reconciling(t, Working, func(h *fakeHost) {
			h.comesBack = defaultA // in the old place: the move fails
		})
		<-time.After(3 * time.Second)
		synctest.Wait()
		if h.restarts() != 1 || r.Report().Pods[0].Containers != 0 {
			t.Fatalf("%d restarts, reported %+v; want it to be stopped", h.restarts(), r.Report().Pods)
		}
		if _, err := r.MoveNow(t.Context(), podA); !errors.Is(err, ErrWrongPlace) {
			t.Errorf("answered %v, want the outcome of the move", err)
		}
	})
}

// TestMoveNowLastPod: when the last pod has left a partition that is switched off, Run ends
// before the pod is Ready again. The order is answered, and a later Run awaits no pod.
func TestMoveNowLastPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		removeAll(t, filepath.Join(h.root, defaultA, "cri-containerd-one.scope"))
		h.cgroup(partitionA+"/cri-containerd-one.scope", nil)
		h.comesBack = defaultA
		h.static()
		h.ready("one", true)
		off := inSystem("kube-system")
		off.Partitions[0].Off = true
		r, _ := h.reconciler(Working, off)
		r.options.Stop = func(ctx context.Context, id string, grace time.Duration) error {
			removeAll(t, filepath.Join(h.root, partitionA, "cri-containerd-"+id+".scope"))
			return h.Restart(ctx, id, grace)
		}
		ended := start(t, r)
		<-time.After(time.Minute)
		synctest.Wait()
		answer := make(chan error, 1)
		go func() {
			slice, err := r.MoveNow(t.Context(), podA)
			if err == nil && slice != filepath.Base(defaultA) {
				err = errors.New("reported in " + slice)
			}
			answer <- err
		}()
		<-time.After(5 * time.Second)
		h.ready("again", false)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if err := <-answer; err != nil {
			t.Errorf("answered %v", err)
		}
		back := members // the section came back while the last pod left
		back.Mode = Never
		r.SetConfig(back)
		start(t, r)
		<-time.After(time.Hour)
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		if awaited := r.awaitedPods(); awaited != "" {
			t.Errorf("an hour later %s is waited for", awaited)
		}
	})
}

// TestMoveNowMonitorEnds: an order that is waiting when the monitor ends is answered.
func TestMoveNowMonitorEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.static()
		h.pods[uidA].Initializing = true
		r, _ := h.reconciler(Working, members)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		answer := moveNow(t.Context(), r, podA)
		<-time.After(time.Minute)
		unanswered(t, answer)
		cancel()
		<-ended
		if err := <-answer; !errors.Is(err, ErrNotMoved) {
			t.Errorf("answered %v", err)
		}
	})
}

// TestNamed: of several pods of one name, named returns the one that lasts.
func TestNamed(t *testing.T) {
	rename := func(p *Pod) { p.Name = "pod-a" }
	terminating := func(p *Pod) { p.Kubelet.Terminating = true }
	forgotten := func(p *Pod) { p.Kubelet = nil }
	ended := func(p *Pod) { p.Ready = false }
	for name, test := range map[string]struct{ old, next Pod }{
		"the other is being deleted":              {pod("a", partition.System, terminating), pod("b", partition.Default, rename)},
		"the kubelet no longer reports the other": {pod("a", partition.Default, forgotten), pod("b", partition.Default, rename)},
		"the other's sandbox has ended":           {pod("a", partition.Default, ended), pod("b", partition.Default, rename)},
		"the other is left over":                  {pod("a", partition.Default, gone, terminating), pod("b", partition.Default, rename, terminating)},
		"the kubelet reports neither":             {pod("a", partition.Default, forgotten, ended), pod("b", partition.Default, rename, forgotten)},
	} {
		for _, pods := range [][]Pod{{test.old, test.next}, {test.next, test.old}} {
			if found, ok := named(pods, types.NamespacedName{Namespace: "kube-system", Name: "pod-a"}); !ok || found.UID != "b" {
				t.Errorf("%s: found %s, %t", name, found.UID, ok)
			}
		}
	}
}

// TestMoveNowWithdrawnAtOnce: an order is withdrawn after the reconcile that follows it has read
// the node. A protected pod is not restarted for it.
func TestMoveNowWithdrawnAtOnce(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.static()
	r, _ := h.reconciler(Working, members)
	r.orders = []*order{{pod: podA, done: make(chan outcome, 1)}}
	s, err := r.snapshot(t.Context())
	d := Decide(s)
	if err != nil || d.Move == nil {
		t.Fatalf("decided %+v, %v; want the move", d, err)
	}
	r.drop(r.orders[0])
	if r.judgeOrders(s, &d); d.Move != nil || !d.Wait {
		t.Errorf("moves %+v for an order that was withdrawn; want the next pass to decide", d.Move)
	}
}

// TestMoveNowTwice: a pod that was moved and is not Ready yet is moved once more, because it
// belongs elsewhere by now. Whoever waits for the first move is told so then, and not when the pod
// is Ready.
func TestMoveNowTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.comesBack = partitionA
		h.ready("one", true)
		h.static()
		r, _ := h.reconciler(Working, members)
		start(t, r)
		<-time.After(time.Minute)
		first := moveNow(t.Context(), r, podA)
		<-time.After(time.Minute)
		unanswered(t, first)
		r.SetConfig(inSystem("other"))
		moveNow(t.Context(), r, podA)
		<-time.After(time.Minute)
		select {
		case err := <-first:
			if err == nil || !strings.Contains(err.Error(), "moved again") {
				t.Errorf("answered %v; want that it was moved again", err)
			}
		default:
			t.Error("the first order has no answer although the pod was moved again")
		}
	})
}
