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

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/cri"
	"nodepartition/internal/unitname"
)

// TestMoveNowDeletedMeanwhile: the pod is deleted while its container is restarted.
func TestMoveNowDeletedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.static()
		h.ready("one", true)
		r, _ := h.reconciler(Working, members)
		start(t, r)
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

// TestMoveNowLiveAnswersTheNewPlace: a live move that had failed is ordered, and succeeds at once.
func TestMoveNowLiveAnswersTheNewPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.broken = errors.New("systemd is busy")
		r, _ := h.reconciler(Unavailable, members)
		start(t, r)
		<-time.After(10 * time.Minute) // its next attempt is up to 30 minutes away
		synctest.Wait()
		h.broken = nil
		if pods := r.Report().Pods; len(pods) != 1 || pods[0].Reason != ReasonFailed {
			t.Fatalf("reported %+v", pods)
		}
		asked := time.Now()
		if err := <-moveNow(t.Context(), r, podA); err != nil || time.Since(asked) > time.Minute {
			t.Errorf("answered %v after %s", err, time.Since(asked))
		}
	})
}

// TestMoveNowWhileAnEarlierMoveIsAwaited: the service has restarted a pod that is not Ready again,
// and its container was created in the old place once more. The order is answered by its own move.
func TestMoveNowWhileAnEarlierMoveIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.comesBack = guestA
		h.ready("one", true)
		r, _ := h.reconciler(Working, members)
		start(t, r)
		<-time.After(5 * time.Second)
		h.ready("again", false)
		for awaited := ""; awaited == ""; {
			<-time.After(100 * time.Millisecond)
			synctest.Wait()
			r.mu.Lock()
			awaited = r.awaitedPods()
			r.mu.Unlock()
		}
		moved := time.Now()
		removeAll(t, filepath.Join(h.root, guestA, "cri-containerd-again.scope"))
		h.cgroup(homeA+"/cri-containerd-late.scope", nil)
		h.mu.Lock()
		h.containers = []cri.Container{{ID: "late", SandboxID: "pause1", Name: "main", State: cri.Running}}
		h.mu.Unlock()
		h.ready("late", false)
		r.Wake()
		<-time.After(time.Until(moved.Add(moveTimeout - 5*time.Second)))
		if pods := r.Report().Pods; pods[0].Misplaced != 1 {
			t.Fatalf("reported %+v", pods)
		}
		asked := time.Now()
		<-moveNow(t.Context(), r, podA)
		if took := time.Since(asked); took < 10*time.Second {
			t.Errorf("answered after %s, before the restart of 10 s is over", took)
		}
	})
}

// TestMoveNowOfAPodThatIsMoved: the service is already restarting the pod. The order is answered at
// the end of that move.
func TestMoveNowOfAPodThatIsMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.comesBack = homeA // in the old place: the move fails
		r, _ := h.reconciler(Working, members)
		start(t, r)
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

// TestMoveNowOfAPodThatIsMovedWaitsUntilReady: the same where the move succeeds.
func TestMoveNowOfAPodThatIsMovedWaitsUntilReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.comesBack = guestA
		h.ready("one", true)
		r, _ := h.reconciler(Working, members)
		start(t, r)
		<-time.After(3 * time.Second)
		h.ready("one", false)
		answer := moveNow(t.Context(), r, podA)
		<-time.After(time.Minute)
		unanswered(t, answer)
		h.ready("again", true)
		r.Wake()
		if err := <-answer; err != nil {
			t.Error(err)
		}
	})
}

// TestMoveNowOfACrashLoopingPod: between two starts of its container a pod has no place.
func TestMoveNowOfACrashLoopingPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.static()
		h.containers[0].State = cri.Exited
		removeAll(t, h.root+"/"+homeA+"/cri-containerd-one.scope")
		r, _ := h.reconciler(Working, members)
		start(t, r)
		<-time.After(time.Minute)
		if slice, err := r.MoveNow(t.Context(), podA); !errors.Is(err, ErrNotMoved) {
			t.Errorf("answered %q, %v; no container of it runs", slice, err)
		}
	})
}

// leaves restarts a container of the partition, whose scope disappears with it.
type leaves struct{ *host }

func (l leaves) Restart(ctx context.Context, id string, grace time.Duration) error {
	removeAll(l.t, filepath.Join(l.root, guestA, "cri-containerd-"+id+".scope"))
	return l.host.Restart(ctx, id, grace)
}

// TestMoveNowOfTheLastPod: when the last pod has left a partition that is switched off, Run ends
// before the pod is Ready again. The order is answered, and a later Run awaits no pod.
func TestMoveNowOfTheLastPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		removeAll(t, filepath.Join(h.root, homeA, "cri-containerd-one.scope"))
		h.cgroup(guestA+"/cri-containerd-one.scope", nil)
		h.comesBack = homeA
		h.static()
		h.ready("one", true)
		off := members
		off.Off = true
		r, _ := h.reconciler(Working, off)
		r.Mover = leaves{h}
		ended := start(t, r)
		<-time.After(time.Minute)
		synctest.Wait()
		answer := make(chan error, 1)
		go func() {
			slice, err := r.MoveNow(t.Context(), podA)
			if err == nil && slice != filepath.Base(homeA) {
				err = errors.New("said to be in " + slice)
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

// TestMoveNowWhilePassesFail: no pass can take the order, and the answer has the reason.
func TestMoveNowWhilePassesFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.static()
		r, _ := h.reconciler(Working, members)
		start(t, r)
		<-time.After(time.Minute)
		h.mu.Lock()
		h.err = errors.New("the runtime does not answer")
		h.mu.Unlock()
		if _, err := r.MoveNow(t.Context(), podA); !errors.Is(err, ErrNotMoved) || !strings.Contains(err.Error(), "the runtime does not answer") {
			t.Errorf("answered %v", err)
		}
	})
}

// TestMoveNowAfterTheEnd: an order that is waiting when the monitor ends is answered.
func TestMoveNowAfterTheEnd(t *testing.T) {
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

// slow is a systemd that answers slowly.
type slow struct{ *host }

func (s slow) EnsureSlice(ctx context.Context, name, description string, limits cgroupfs.Limits) error {
	<-time.After(20 * time.Second)
	return s.host.EnsureSlice(ctx, name, description, limits)
}

// TestMoveNowTimeOutOfABegunMove: a caller that stops waiting after the pass has decided gets the
// answer that the move goes on.
func TestMoveNowTimeOutOfABegunMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.comesBack = guestA
		h.static()
		h.ready("one", true)
		r, _ := h.reconciler(Working, members)
		start(t, r)
		<-time.After(time.Minute)
		synctest.Wait()
		removeAll(t, h.root+"/"+guestA) // gives the pass work before the move
		r.Units = slow{h}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := r.MoveNow(ctx, podA); err == nil || errors.Is(err, ErrNotMoved) {
			t.Errorf("answered %v, and it is restarted", err)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if n := h.restarts(); n != 1 {
			t.Errorf("%d restarts", n)
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
		"the other is being deleted":     {pod("a", unitname.System, terminating), pod("b", unitname.Default, rename)},
		"the kubelet forgot the other":   {pod("a", unitname.Default, forgotten), pod("b", unitname.Default, rename)},
		"the other's sandbox has ended":  {pod("a", unitname.Default, ended), pod("b", unitname.Default, rename)},
		"the other is left over":         {pod("a", unitname.Default, gone, terminating), pod("b", unitname.Default, rename, terminating)},
		"the kubelet knows none of them": {pod("a", unitname.Default, forgotten, ended), pod("b", unitname.Default, rename, forgotten)},
	} {
		for _, pods := range [][]Pod{{test.old, test.next}, {test.next, test.old}} {
			if found, ok := named(pods, types.NamespacedName{Namespace: "kube-system", Name: "pod-a"}); !ok || found.UID != "b" {
				t.Errorf("%s: found %s, %t", name, found.UID, ok)
			}
		}
	}
}
