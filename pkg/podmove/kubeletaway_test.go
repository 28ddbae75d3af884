package podmove

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// TestReconcilerKubeletAway: while the kubelet is away no program starts a stopped container
// again, so that none is stopped, whatever the reason to move it. Once it is back, the pods are
// moved.
func TestReconcilerKubeletAway(t *testing.T) {
	asks := asking("")
	withdrawn := asking("")
	withdrawn.Workloads = nil
	off := inSystem("kube-system")
	off.Partitions[0].Off = true
	for name, test := range map[string]struct {
		comesBack     string
		before, after Policy
		change        func(*fakeHost)
	}{
		"a namespace is added":          {partitionA, inSystem("other"), members, func(*fakeHost) {}},
		"the partition is switched off": {defaultA, members, off, (*fakeHost).placed},
		"a right is withdrawn":          {defaultA, asks, withdrawn, (*fakeHost).placedByRight},
	} {
		for _, mode := range []Mode{Auto, OnlyRestart} {
			t.Run(name+", "+string(mode), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newHost(t)
					h.comesBack = test.comesBack
					test.change(h)
					test.before.Mode, test.after.Mode = mode, mode
					r, e := h.reconciler(Working, test.before)
					start(t, r)
					<-time.After(time.Minute)
					h.away(true)
					r.SetConfig(test.after)
					<-time.After(20 * time.Minute)
					synctest.Wait()
					if pods := r.Report().Pods; h.restarts() > 0 || pods[0].Reason != report.NoKubelet {
						t.Fatalf("did %q, reported %+v; want it to wait for the kubelet", h.all(), pods)
					}
					h.away(false)
					r.Wake()
					<-time.After(time.Minute)
					synctest.Wait()
					if h.restarts() != 1 || len(e.failed) > 0 {
						t.Errorf("did %q, failures %v; want it moved", h.all(), e.failed)
					}
				})
			})
		}
	}
}

// away makes the kubelet stop, or start.
func (h *fakeHost) away(away bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.silent = away
}

// Answers implements Kubelet.
func (h *fakeHost) Answers() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.node.Answers()
}

// placed puts the first pod into the partition.
func (h *fakeHost) placed() {
	h.cgroup(partitionA+"/cri-containerd-one.scope", nil)
	removeAll(h.t, h.root+"/"+defaultA+"/cri-containerd-one.scope")
}

// placedByRight puts the first pod into telemetry, for which it asks.
func (h *fakeHost) placedByRight() {
	h.asksForTelemetry()
	h.sandboxes, h.containers = h.sandboxes[:1], slices.DeleteFunc(h.containers, func(c cri.Container) bool { return c.ID == "two" })
	h.cgroup(partition.CgroupPath(partition.PodSlice("telemetry", "Burstable", uidA))+"/cri-containerd-one.scope", nil)
	removeAll(h.t, h.root+"/"+defaultA+"/cri-containerd-one.scope")
}

// TestReconcilerKubeletAwayBetween: the kubelet goes away after a reconcile has decided to move a
// pod of two containers: before the first one is stopped, or while it is restarted. No container is
// stopped from then on until the kubelet is back. A live move goes on without it.
func TestReconcilerKubeletAwayBetween(t *testing.T) {
	for name, test := range map[string]struct {
		first  bool // before the first container
		nri    NRIState
		before []string
		after  []string
	}{
		"before the first":  {true, Working, nil, []string{"restart one 3s", "restart three 3s"}},
		"before the second": {false, Working, []string{"restart one 3s"}, []string{"restart one 3s", "restart three 3s"}},
		"live": {true, Unavailable, []string{"live partition-cri-containerd-one.scope", "live partition-cri-containerd-three.scope"},
			[]string{"live partition-cri-containerd-one.scope", "live partition-cri-containerd-three.scope"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t)
				h.comesBack = partitionA
				h.secondContainer()
				r, e := h.reconciler(test.nri, members)
				if test.first {
					r.options.Units = &late{h, sync.OnceFunc(func() { h.away(true) })}
				}
				start(t, r)
				if !test.first {
					h.awaitRestart()
					h.away(true)
				}
				<-time.After(20 * time.Minute)
				synctest.Wait()
				if got := h.moves(); !slices.Equal(got, test.before) {
					t.Errorf("did %q while the kubelet is away; want %q", got, test.before)
				}
				h.away(false)
				r.Wake()
				<-time.After(time.Minute)
				synctest.Wait()
				if got := h.moves(); !slices.Equal(got, test.after) || len(e.failed) > 0 {
					t.Errorf("did %q, failures %v; want %q", got, e.failed, test.after)
				}
			})
		})
	}
}

// restartsInVain starts to move two pods by restarts. The container of the first, which is Ready or
// not, does not come back.
func restartsInVain(t *testing.T, mode Mode, ready bool) (*fakeHost, *Reconciler, *events) {
	t.Helper()
	h := newHost(t)
	h.secondPod()
	h.ready("one", ready)
	c := members
	c.Mode = mode
	r, e := h.reconciler(Working, c)
	start(t, r)
	return h, r, e
}

// comesLate has the container of the first pod come back, Ready or not.
func (h *fakeHost) comesLate(ready bool) {
	h.cgroup(partitionA+"/cri-containerd-late.scope", nil)
	h.mu.Lock()
	h.containers = append(h.containers, cri.Container{ID: "late", SandboxID: "pause1", Name: "main", State: cri.Running})
	h.mu.Unlock()
	h.ready("late", ready)
}

// TestReconcilerMissingHoldsAll: while a container that was stopped to be moved has not come back,
// no other pod is restarted, in any mode and however long that takes. When it is back, the next one
// is.
func TestReconcilerMissingHoldsAll(t *testing.T) {
	for _, mode := range []Mode{Auto, OnlyRestart} {
		for name, wasReady := range map[string]bool{"was Ready": true, "was not Ready": false} {
			t.Run(string(mode)+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h, r, e := restartsInVain(t, mode, wasReady)
					<-time.After(24 * time.Hour)
					synctest.Wait()
					if h.restarts() != 1 || len(e.failed) != 1 || !errors.Is(e.failed[0], ErrInVain) {
						t.Fatalf("did %q, failures %v; want one restart, in vain", h.all(), e.failed)
					}
					if next := r.Report().Pods[1].Next; !strings.Contains(next, "kube-system/a was restarted") {
						t.Errorf("the other one: %q; want the pod that it waits for", next)
					}
					h.comesLate(wasReady)
					<-time.After(time.Minute)
					synctest.Wait()
					if h.restarts() != 2 {
						t.Errorf("did %q; want the other one restarted", h.all())
					}
				})
			})
		}
	}
}

// TestReconcilerMissingNotReady: a container that came back late and does not become Ready holds
// the other pods as one that came back in time: with OnlyRestart for moveTimeout.
func TestReconcilerMissingNotReady(t *testing.T) {
	for mode, want := range map[Mode]int{Auto: 1, OnlyRestart: 2} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, _, _ := restartsInVain(t, mode, true)
				<-time.After(time.Hour)
				h.comesLate(false)
				<-time.After(moveTimeout - time.Minute)
				synctest.Wait()
				if h.restarts() != 1 {
					t.Errorf("did %q before it had time to become Ready", h.all())
				}
				<-time.After(2 * time.Minute)
				synctest.Wait()
				if h.restarts() != want {
					t.Errorf("did %q; want %d restarts", h.all(), want)
				}
			})
		})
	}
}
