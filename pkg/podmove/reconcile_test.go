package podmove

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/cri"
	"nodepartition/internal/podsapi"
)

// host is a node whose systemd, runtime and kubelet do what they are asked for: in a folder.
type host struct {
	*node
	mu sync.Mutex
	// did is what was asked for, in order.
	did []string
	// comesBack is the slice's path in which a stopped container starts again; empty: it does not.
	comesBack string
	// broken is what systemd answers.
	broken error
}

func (h *host) do(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.did = append(h.did, what)
}

func (h *host) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.did)
}

func (h *host) Sandboxes(ctx context.Context) ([]cri.Sandbox, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.node.Sandboxes(ctx)
}

func (h *host) Containers(context.Context) ([]cri.Container, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.containers), h.err
}

func (h *host) EnsureSlice(_ context.Context, name, description string, limits cgroupfs.Limits) error {
	h.do("ensure " + description)
	if h.broken != nil {
		return h.broken
	}
	quota := "max"
	if limits.CPUQuotaPerSec != cgroupfs.Unlimited {
		quota = fmt.Sprint(limits.CPUQuotaPerSec * limits.CPUQuotaPeriod / 1_000_000)
	}
	text := func(v uint64) string {
		if v == cgroupfs.Unlimited {
			return "max"
		}
		return fmt.Sprint(v)
	}
	h.cgroup(cgroupfs.SlicePath(name), map[string]string{
		"memory.max": text(limits.MemoryMax), "cpu.weight": text(limits.CPUWeight), "pids.max": text(limits.TasksMax),
		"cpu.max": quota + " " + fmt.Sprint(limits.CPUQuotaPeriod), "memory.min": text(limits.Protection.Min), "memory.low": text(limits.Protection.Low),
	})
	return nil
}

func (h *host) SetCPUWeight(_ context.Context, name string, weight uint64) error {
	h.do(fmt.Sprintf("weight %s %d", name, weight))
	h.cgroup(cgroupfs.SlicePath(name), map[string]string{"cpu.weight": fmt.Sprint(weight)})
	return h.broken
}

func (h *host) SetMemoryProtection(_ context.Context, name string, p cgroupfs.Protection) error {
	h.do(fmt.Sprintf("protect %s %d %d", name, p.Min, p.Low))
	h.cgroup(cgroupfs.SlicePath(name), map[string]string{"memory.min": fmt.Sprint(p.Min), "memory.low": fmt.Sprint(p.Low)})
	return h.broken
}

func (h *host) StopSlice(_ context.Context, name string) error {
	h.do("stop " + name)
	return os.RemoveAll(filepath.Join(h.root, cgroupfs.SlicePath(name)))
}

func (h *host) StopScope(_ context.Context, name string) error { h.do("kill " + name); return nil }

// Restart ends a container, and starts it again ten seconds later, as the kubelet does.
func (h *host) Restart(_ context.Context, id string, grace time.Duration) error {
	h.do(fmt.Sprintf("restart %s %s", id, grace))
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.containers {
		if h.containers[i].ID == id {
			h.containers[i].State = cri.Exited
		}
	}
	if err := os.RemoveAll(filepath.Join(h.root, homeA, "cri-containerd-"+id+".scope")); err != nil {
		return err
	}
	if h.comesBack != "" {
		time.AfterFunc(10*time.Second, func() {
			h.cgroup(h.comesBack+"/cri-containerd-again.scope", map[string]string{"cpu.weight": "4"})
			h.mu.Lock()
			defer h.mu.Unlock()
			h.containers = append(h.containers, cri.Container{ID: "again", SandboxID: "pause1", Name: "main", State: cri.Running})
		})
	}
	return nil
}

func (h *host) Live(_ context.Context, from, scope, to, newScope, _ string) error {
	h.do("live " + newScope)
	if h.broken != nil {
		return h.broken
	}
	h.cgroup(cgroupfs.SlicePath(to), nil)
	return os.Rename(filepath.Join(h.root, cgroupfs.SlicePath(from), scope), filepath.Join(h.root, cgroupfs.SlicePath(to), newScope))
}

// events is an Observer and a Journal.
type events struct {
	mu     sync.Mutex
	placed []string
	failed []error
	all    bool // no pod is restarted
	passes int
}

func (e *events) Placed(way Way, to Partition, result Result, _ time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.placed = append(e.placed, fmt.Sprint(way, " ", to, " ", result))
}
func (e *events) Reconciled(time.Duration, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.passes++
}
func (e *events) reconciled() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.passes
}
func (e *events) Connected(string, bool) {}
func (e *events) PassesAgain()           {}
func (e *events) Moving(Move, Container) {}
func (e *events) Killing(string)         {}
func (e *events) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failed = append(e.failed, err)
}
func (e *events) PassFailed(err error)                      { e.fail(err) }
func (e *events) NotPrepared(_, _ string, err error)        { e.fail(err) }
func (e *events) NotPlaced(_ string, err error)             { e.fail(err) }
func (e *events) MoveFailed(_ Move, _ Container, err error) { e.fail(err) }
func (e *events) NotReady(m Move)                           { e.fail(errors.New("not ready: " + m.Name)) }
func (e *events) GivenUp(_ Move, _ Container, err error, all bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failed, e.all = append(e.failed, err), e.all || all
}

// newHost has one pod of kube-system, at home.
func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{node: newNode(t)}
	h.pods = map[types.UID]*podsapi.Pod{uidA: {
		UID: uidA, RestartPolicy: v1.RestartPolicyAlways, GracePeriod: 3 * time.Second, MilliCPU: 100,
		Containers: map[string]podsapi.Container{"main": {}},
	}}
	for _, slice := range []string{"kubepods-system.slice", "kubepods-system-burstable.slice"} {
		h.cgroup(cgroupfs.SlicePath(slice), map[string]string{"cpu.weight": "100"})
	}
	return h
}

func (h *host) reconciler(nri NRIState, c Config) (*Reconciler, *events) {
	e := &events{}
	r := NewReconciler()
	r.Placer = &Placer{Wake: r.Wake, Announce: func(cri.Sandbox, QoS) {}, Connection: func(bool) {}}
	r.Gatherer = &Gatherer{Cgroups: cgroupfs.FS(h.root), Runtime: h, Kubelet: h.node, Announced: h.node, Proc: filepath.Join(h.root, "proc")}
	r.Units, r.Mover, r.Observer, r.Journal, r.NRI, r.Tick = h, h, e, e, func() NRIState { return nri }, 30*time.Second
	r.SetConfig(c)
	return r, e
}

// start runs a reconciler until the test ends; its end is sent.
func start(t *testing.T, r *Reconciler) <-chan error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return ended
}

var members = Config{Namespaces: []string{"kube-system"}, Mode: Auto}

func TestMisplacedIsRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.comesBack = guestA
		r, e := h.reconciler(Working, members)
		start(t, r)
		<-time.After(time.Minute)
		synctest.Wait()
		want := []string{"ensure Pod kube-system/a", "weight kubepods-system-burstable.slice 1", "weight kubepods-system.slice 1", "restart one 3s",
			"weight kubepods-system-burstable.slice 4", "weight kubepods-system.slice 4"}
		if did := h.all(); !slices.Equal(did, want) {
			t.Errorf("did %q, want %q", did, want)
		}
		if len(e.placed) != 1 || e.placed[0] != "restart system success" || len(e.failed) != 0 {
			t.Errorf("observed %q, failures %v", e.placed, e.failed)
		}
		report := r.Report()
		if len(report.Pods) != 1 || report.Pods[0].Misplaced != 0 || report.Pods[0].Containers != 1 || report.Pods[0].Partition() != System {
			t.Errorf("reported %+v", report.Pods)
		}
		if r.Ready() != nil || r.Alive() != nil {
			t.Errorf("ready %v, alive %v", r.Ready(), r.Alive())
		}
	})
}

// TestComesBackToTheWrongPlace: a runtime that does not do as it is told must not have its pods restarted for ever.
func TestComesBackToTheWrongPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.comesBack = homeA
		r, e := h.reconciler(Working, members)
		start(t, r)
		<-time.After(35 * time.Second)
		synctest.Wait()
		if len(e.failed) != 1 || !strings.Contains(e.failed[0].Error(), "came back in kubepods-burstable-pod") {
			t.Fatalf("failures %v", e.failed)
		}
		if pods := r.Report().Pods; pods[0].Reason != ReasonFailed || pods[0].Misplaced != 1 {
			t.Errorf("reported %+v, want why it is not tried again", pods[0])
		}
		restarts := func() (n int) {
			for _, what := range h.all() {
				if strings.HasPrefix(what, "restart ") {
					n++
				}
			}
			return n
		}
		if n := restarts(); n != 1 {
			t.Errorf("%d restarts within half a minute of the first, want 1", n)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if n := restarts(); n != 2 {
			t.Errorf("%d restarts, want another one after the back-off", n)
		}
	})
}

func TestMisplacedIsMovedLiveAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		r, e := h.reconciler(Unavailable, members)
		ended := start(t, r)
		<-time.After(5 * time.Second)
		synctest.Wait()
		if did := h.all(); !slices.Contains(did, "live partition-cri-containerd-one.scope") {
			t.Fatalf("did %q", did)
		}
		if pods := r.Report().Pods; pods[0].Misplaced != 0 || pods[0].LiveMoved != 1 {
			t.Errorf("reported %+v", pods[0])
		}
		off := members
		off.Off = true
		r.SetConfig(off)
		if err := <-ended; err != nil {
			t.Errorf("ended with %v", err)
		}
		did := h.all()
		if i, j := slices.Index(did, "live cri-containerd-one.scope"), slices.Index(did, "stop "+filepath.Base(guestA)); i < 0 || j < i {
			t.Errorf("did %q, want it moved back under its old name, and then the slice stopped", did)
		}
		if len(e.placed) != 2 || e.placed[1] != "live default success" {
			t.Errorf("observed %q", e.placed)
		}
	})
}

// TestPassesAreApart: a pass waits until what wakes it has come to rest, but not for ever, and none is forgotten.
func TestPassesAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		r, e := h.reconciler(Working, members)
		start(t, r)
		<-time.After(10 * time.Second)
		synctest.Wait()
		before := e.reconciled()
		r.Wake()
		<-time.After(quiet + time.Millisecond)
		synctest.Wait()
		if n := e.reconciled() - before; n != 1 {
			t.Errorf("%d passes after one wake, want 1", n)
		}
		before = e.reconciled()
		const burst = 10 * time.Second
		for range burst / (quiet / 2) {
			r.Wake()
			<-time.After(quiet / 2)
		}
		<-time.After(quiet)
		synctest.Wait()
		if n := e.reconciled() - before; n < int(burst/patience)-2 || n > int(burst/patience)+1 {
			t.Errorf("%d passes in %s of wakes, want one in each %s", n, burst, patience)
		}
	})
}

// TestRuntimeAway: while the runtime does not answer nothing is stopped, killed or moved.
func TestRuntimeAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.cgroup(guestB, nil) // left over
		h.err = errors.New("connection refused")
		r, e := h.reconciler(Working, members)
		start(t, r)
		<-time.After(time.Minute)
		synctest.Wait()
		if did := h.all(); len(did) != 0 {
			t.Errorf("did %q", did)
		}
		if len(e.failed) != 1 || !errors.Is(r.Ready(), h.err) || r.Alive() != nil {
			t.Errorf("said %v, ready %v, alive %v; want it said once", e.failed, r.Ready(), r.Alive())
		}
		h.mu.Lock()
		h.err = nil
		h.mu.Unlock()
		<-time.After(5 * time.Second)
		synctest.Wait()
		if did := h.all(); !slices.Contains(did, "stop "+filepath.Base(guestB)) || r.Ready() != nil {
			t.Errorf("did %q, ready %v", did, r.Ready())
		}
	})
}

// TestSystemdAway: a slice that cannot be made is tried again, and does not keep the rest from being done.
func TestSystemdAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.broken = errors.New("no connection to systemd")
		r, e := h.reconciler(Unavailable, members)
		start(t, r)
		<-time.After(10 * time.Second)
		synctest.Wait()
		if !errors.Is(r.Ready(), h.broken) || len(e.failed) < 2 {
			t.Errorf("ready %v, said %v", r.Ready(), e.failed)
		}
		if _, err := os.Stat(filepath.Join(h.root, homeA, "cri-containerd-one.scope")); err != nil {
			t.Errorf("the container is not where it was: %v", err)
		}
	})
}
