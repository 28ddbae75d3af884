package podmove

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/livemove"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// fakeHost is a node in a folder. Its systemd, runtime and kubelet carry out every request.
type fakeHost struct {
	*node
	mu sync.Mutex
	// did lists the requests in order.
	did []string
	// comesBack is the path of the slice in which a stopped container starts again. It is empty if the
	// container does not.
	comesBack string
	restarted int
	placer    fakePlacer
	// broken is the error that systemd answers with.
	broken error
}

func (h *fakeHost) do(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.did = append(h.did, what)
}

func (h *fakeHost) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.did)
}

func (h *fakeHost) Sandboxes(ctx context.Context) ([]cri.Sandbox, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.node.Sandboxes(ctx)
}

func (h *fakeHost) Containers(context.Context) ([]cri.Container, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.containers), h.err
}

func (h *fakeHost) EnsureSlice(_ context.Context, name, description string, limits cgroups.Limits) error {
	h.do("ensure " + description)
	if h.broken != nil {
		return h.broken
	}
	quota := "max"
	if limits.CPUQuotaPerSec != cgroups.Unlimited {
		quota = fmt.Sprint(limits.CPUQuotaPerSec * limits.CPUQuotaPeriod / 1_000_000)
	}
	text := func(v uint64) string {
		if v == cgroups.Unlimited {
			return "max"
		}
		return fmt.Sprint(v)
	}
	h.cgroup(partition.CgroupPath(name), map[string]string{
		"memory.max": text(limits.MemoryMax), "cpu.weight": text(limits.CPUWeight), "pids.max": text(limits.TasksMax),
		"cpu.max": quota + " " + fmt.Sprint(limits.CPUQuotaPeriod), "memory.min": text(limits.Protection.Min), "memory.low": text(limits.Protection.Low),
	})
	return nil
}

func (h *fakeHost) SetCPUWeight(_ context.Context, name string, weight uint64) error {
	h.do(fmt.Sprintf("weight %s %d", name, weight))
	h.cgroup(partition.CgroupPath(name), map[string]string{"cpu.weight": fmt.Sprint(weight)})
	return h.broken
}

func (h *fakeHost) SetScopeCPU(_ context.Context, name string, weight, quotaPerSec uint64) error {
	h.do(fmt.Sprintf("cpu %s %d %d", name, weight, quotaPerSec))
	if h.broken != nil {
		return h.broken
	}
	return filepath.WalkDir(h.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != name {
			return err
		}
		files := map[string]string{"cpu.weight": fmt.Sprint(weight)}
		switch quotaPerSec {
		case 0:
		case cgroups.Unlimited:
			files["cpu.max"] = "max 100000"
		default:
			files["cpu.max"] = fmt.Sprint(quotaPerSec/10, " 100000")
		}
		h.cgroup(strings.TrimPrefix(path, h.root), files)
		return nil
	})
}

func (h *fakeHost) SetMemoryProtection(_ context.Context, name string, p cgroups.Protection) error {
	h.do(fmt.Sprintf("protect %s %d %d", name, p.Min, p.Low))
	h.cgroup(partition.CgroupPath(name), map[string]string{"memory.min": fmt.Sprint(p.Min), "memory.low": fmt.Sprint(p.Low)})
	return h.broken
}

func (h *fakeHost) StopSlice(_ context.Context, name string) error {
	h.do("stop " + name)
	return os.RemoveAll(filepath.Join(h.root, partition.CgroupPath(name)))
}

func (h *fakeHost) StopScope(_ context.Context, name string) error { h.do("kill " + name); return nil }

// Restart ends a container, and starts it again ten seconds later, as the kubelet does.
func (h *fakeHost) Restart(_ context.Context, id string, grace time.Duration) error {
	h.do(fmt.Sprintf("restart %s %s", id, grace))
	h.mu.Lock()
	defer h.mu.Unlock()
	name := ""
	for i := range h.containers {
		if h.containers[i].ID == id {
			h.containers[i].State, name = cri.Exited, h.containers[i].Name
		}
	}
	if id == "two" {
		return nil // not checked by any test
	}
	if err := os.RemoveAll(filepath.Join(h.root, defaultA, "cri-containerd-"+id+".scope")); err != nil {
		return err
	}
	if h.comesBack != "" {
		h.restarted++
		again := "again" + strings.Repeat("x", h.restarted-1)
		time.AfterFunc(10*time.Second, func() {
			h.cgroup(h.comesBack+"/cri-containerd-"+again+".scope", map[string]string{"cpu.weight": "4"})
			h.mu.Lock()
			defer h.mu.Unlock()
			h.containers = append(h.containers, cri.Container{ID: again, SandboxID: "pause1", Name: name, State: cri.Running})
		})
	}
	return nil
}

func (h *fakeHost) Live(_ context.Context, r livemove.Request) error {
	h.do("live " + r.NewName)
	if h.broken != nil {
		return h.broken
	}
	to := partition.CgroupPath(r.TargetSlice)
	h.cgroup(to, nil)
	return os.Rename(filepath.Join(h.root, r.Cgroup), filepath.Join(h.root, to, r.NewName))
}

// events records the notifications of the reconciler.
type events struct {
	mu       sync.Mutex
	placed   []string
	failed   []error
	all      bool // no pod is restarted
	passes   int
	last     string // error of a reconcile
	outlived []report.Outlived
}

func (e *events) Placed(p Placement) {
	e.mu.Lock()
	defer e.mu.Unlock()
	result := "success"
	if p.Err != nil {
		result = "failure"
		e.failed, e.all = append(e.failed, p.Err), e.all || errors.Is(p.Err, ErrWrongPlace)
	}
	e.placed = append(e.placed, fmt.Sprint(p.Method, " ", p.To, " ", result))
}

func (e *events) Quiet() {}

func (e *events) Reconciled(_ time.Duration, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.passes++
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != e.last {
		e.failed = append(e.failed, err)
	}
	e.last = text
}

func (e *events) reconciled() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.passes
}
func (e *events) Moving(Move, Container) {}
func (e *events) Killing(string)         {}
func (e *events) NotFollowed(_ report.Pod, flaw string) {
	e.fail(errors.New("not followed: " + flaw))
}
func (e *events) Outlived(o report.Outlived) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.outlived = append(e.outlived, o)
}
func (e *events) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failed = append(e.failed, err)
}
func (e *events) NotPrepared(_, _ string, err error) { e.fail(err) }
func (e *events) NotReady(m Move)                    { e.fail(errors.New("not ready: " + m.Name)) }

// newHost returns a host with one pod of kube-system, in the default partition.
func newHost(t *testing.T) *fakeHost {
	t.Helper()
	h := &fakeHost{node: newNode(t)}
	h.pods = map[types.UID]*kubelet.Pod{uidA: {
		UID: uidA, RestartPolicy: v1.RestartPolicyAlways, GracePeriod: 3 * time.Second, MilliCPU: 100,
		Containers: map[string]kubelet.Container{"main": {}},
	}}
	for _, slice := range []string{"kubepods-system.slice", "kubepods-system-burstable.slice"} {
		h.cgroup(partition.CgroupPath(slice), map[string]string{"cpu.weight": "100"})
	}
	return h
}

func (h *fakeHost) reconciler(nri NRIState, c Policy) (*Reconciler, *events) {
	e := &events{}
	o := idle(&Gatherer{Cgroups: cgroups.FS(h.root), Runtime: h, Kubelet: h, Announced: h.node, Proc: filepath.Join(h.root, "proc")}, nri)
	o.Placer, o.Units, o.Stop, o.Live, o.Events = &h.placer, h, h.Restart, h.Live, e
	return made(h.t, o, c), e
}

// idle returns the options of a reconciler whose parts do nothing.
func idle(g *Gatherer, nri NRIState) Options {
	h := &fakeHost{}
	return Options{
		Gatherer: g, Units: h, Placer: &fakePlacer{}, Events: &events{}, NRI: func() NRIState { return nri },
		Table: &Table{}, Signals: NewSignals(), Tick: 30 * time.Second, Recover: func(context.Context) {},
	}
}

// made returns a reconciler with a configuration.
func made(tb testing.TB, o Options, c Policy) *Reconciler {
	tb.Helper()
	r := New(o)
	r.SetConfig(c)
	return r
}

// announced returns the announcement of a burstable pod.
func announced(c Policy, s cri.Sandbox) Announcement {
	return Announcement{s, v1.PodQOSBurstable, c.Rules().Place(partition.Pod{Namespace: s.Namespace, Origin: s.Origin})}
}

// TestReconcilerAnnounces: the slice of an announced member is made without a reconcile. If too
// many are announced at once, a reconcile makes the rest.
func TestReconcilerAnnounces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.sandboxes, h.containers = nil, nil
		r, e := h.reconciler(Working, members)
		start(t, r)
		<-time.After(10 * time.Second)
		synctest.Wait()
		before := e.reconciled()
		r.Announce(announced(members, cri.Sandbox{UID: uidA, Namespace: "kube-system", Name: "a"}))
		synctest.Wait()
		if did := h.all(); !slices.Contains(did, "ensure Pod kube-system/a") || e.reconciled() != before {
			t.Errorf("did %q in %d passes, want the slice without one", did, e.reconciled()-before)
		}
	})
	s := NewSignals()
	for range maxAnnounced {
		s.Announce(Announcement{})
	}
	if len(s.wake) != 0 {
		t.Error("woken before the queue is full")
	}
	s.Announce(Announcement{})
	if len(s.wake) != 1 || len(s.announced) != maxAnnounced {
		t.Errorf("%d announced, woken %d times; want a pass for the last one", len(s.announced), len(s.wake))
	}
}

// TestReconcilerAnnouncesBeforeRecovery: a pod that starts while an interrupted move is finished
// gets its slice at once, and the first reconcile waits.
func TestReconcilerAnnouncesBeforeRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.sandboxes, h.containers = nil, nil
		r, e := h.reconciler(Working, members)
		recovered := make(chan struct{})
		r.options.Recover = func(context.Context) { <-recovered }
		start(t, r)
		r.Announce(announced(members, cri.Sandbox{UID: uidA, Namespace: "kube-system", Name: "a"}))
		synctest.Wait()
		if did := h.all(); !slices.Contains(did, "ensure Pod kube-system/a") || e.reconciled() != 0 {
			t.Errorf("did %q in %d passes, want the slice before the first pass", did, e.reconciled())
		}
		close(recovered)
		<-time.After(10 * time.Second)
		synctest.Wait()
		if e.reconciled() == 0 {
			t.Error("no pass follows")
		}
	})
}

// start runs a reconciler until the test ends, and returns a channel that receives Run's error.
func start(t *testing.T, r *Reconciler) <-chan error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return ended
}

var members = inSystem("kube-system")

func TestReconcilerRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.comesBack = partitionA
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
		found := r.Report()
		if len(found.Pods) != 1 || found.Pods[0].Misplaced != 0 || found.Pods[0].Containers != 1 || found.Pods[0].Partition() != partition.System {
			t.Errorf("reported %+v", found.Pods)
		}
		if r.Ready() != nil || r.Alive() != nil {
			t.Errorf("ready %v, alive %v", r.Ready(), r.Alive())
		}
	})
}

// restarts counts the containers that were stopped to be moved.
func (h *fakeHost) restarts() (n int) {
	for _, what := range h.all() {
		if strings.HasPrefix(what, "restart ") {
			n++
		}
	}
	return n
}

// awaitRestart returns within a second after the first container was stopped.
func (h *fakeHost) awaitRestart() {
	h.t.Helper()
	for range 60 {
		if h.restarts() > 0 {
			return
		}
		<-time.After(time.Second)
	}
	h.t.Fatal("no container is restarted within a minute")
}

// secondContainer adds another container to the first pod, in the same place.
func (h *fakeHost) secondContainer() {
	h.cgroup(defaultA+"/cri-containerd-three.scope", map[string]string{"cpu.weight": "4"})
	h.containers = append(h.containers, cri.Container{ID: "three", SandboxID: "pause1", Name: "side", State: cri.Running})
	h.pods[uidA].Containers["side"] = kubelet.Container{}
}

// secondPod adds another member in the default partition to a host.
func (h *fakeHost) secondPod() {
	const defaultSlice = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod11111111_2222_3333_4444_666666666666.slice"
	h.cgroup(defaultSlice+"/cri-containerd-two.scope", nil)
	h.sandboxes = append(h.sandboxes, cri.Sandbox{ID: "pause2", UID: uidB, Namespace: "kube-system", Name: "b", Ready: true})
	h.containers = append(h.containers, cri.Container{ID: "two", SandboxID: "pause2", Name: "main", State: cri.Running})
	h.pods[uidB] = &kubelet.Pod{
		UID: uidB, RestartPolicy: v1.RestartPolicyAlways, GracePeriod: 3 * time.Second, Containers: map[string]kubelet.Container{"main": {}},
	}
}

// TestReconcilerWrongPlace: if the runtime does not follow its instructions, one container is
// restarted and no other one of the node, until the runtime connects again or the configuration
// changes.
func TestReconcilerWrongPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.comesBack = defaultA
		h.secondPod()
		r, e := h.reconciler(Working, members)
		start(t, r)
		<-time.After(24 * time.Hour)
		synctest.Wait()
		if n := h.restarts(); n != 1 {
			t.Fatalf("%d restarts in a day, want 1", n)
		}
		if len(e.failed) != 1 || !e.all || !strings.Contains(e.failed[0].Error(), "came back in kubepods-burstable-pod") {
			t.Fatalf("failures %v, no pod is restarted: %t; want it once", e.failed, e.all)
		}
		for _, pod := range r.Report().Pods {
			if pod.Reason != report.Failed || pod.Misplaced != 1 {
				t.Errorf("reported %+v, want why it is not restarted", pod)
			}
		}
		r.SetConfig(members) // read again at a reload of systemd, unchanged
		<-time.After(time.Hour)
		synctest.Wait()
		if n := h.restarts(); n != 1 {
			t.Errorf("%d restarts after a reload, want 1", n)
		}
		h.placer.connected.Add(1)
		r.Wake()
		<-time.After(time.Hour)
		synctest.Wait()
		if n := h.restarts(); n != 2 {
			t.Errorf("%d restarts after the runtime has connected again, want 2", n)
		}
		r.SetConfig(inSystem("kube-system", "monitoring"))
		<-time.After(time.Hour)
		synctest.Wait()
		if n := h.restarts(); n != 3 {
			t.Errorf("%d restarts after a change of the configuration, want 3", n)
		}
	})
}

// TestReconcilerConnectionFlaps: a runtime that does not follow its instructions connects again
// every ten seconds. The pod is restarted less and less often.
func TestReconcilerConnectionFlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.comesBack = defaultA
		r, _ := h.reconciler(Working, members)
		start(t, r)
		for range 360 {
			<-time.After(10 * time.Second)
			h.placer.connected.Add(1)
			r.Wake()
		}
		synctest.Wait()
		if n := h.restarts(); n < 5 || n > 8 {
			t.Errorf("%d restarts in an hour, want one after 30 s, doubled each time up to 30 min", n)
		}
	})
}

// TestReconcilerEndsMeanwhile: without NRI each container of a crash loop ends before it is moved.
// The pod is tried each half a minute.
func TestReconcilerEndsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		r, _ := h.reconciler(Unavailable, members)
		tries := 0
		r.options.Live = func(context.Context, livemove.Request) error { tries++; return livemove.ErrGone }
		start(t, r)
		<-time.After(time.Hour)
		synctest.Wait()
		if tries < 50 || tries > 121 {
			t.Errorf("%d tries in an hour, want one each 30 s or at the next reconcile", tries)
		}
	})
}

// TestReconcilerOvertaken: the configuration changes while a container is restarted, which comes
// back where it belongs now. The runtime has placed it, and the next pod is restarted.
func TestReconcilerOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.comesBack = defaultA
		h.secondPod()
		h.sandboxes[len(h.sandboxes)-1].Namespace = "monitoring"
		r, e := h.reconciler(Working, members)
		start(t, r)
		<-time.After(5 * time.Second)
		synctest.Wait()
		if did := h.restarts(); did != 1 {
			t.Fatalf("%d restarts, want the first", did)
		}
		r.SetConfig(inSystem("monitoring"))
		<-time.After(time.Minute)
		synctest.Wait()
		if did := h.all(); e.all || !slices.Contains(did, "restart two 3s") {
			t.Errorf("did %q, no pod is restarted: %t; want the second restarted, too", did, e.all)
		}
		if len(e.failed) != 1 || !errors.Is(e.failed[0], errOvertaken) {
			t.Errorf("failures %v, want why the first is not where it was to be", e.failed)
		}
	})
}

// asksForTelemetry gives the first pod of a host another namespace, and a right to telemetry by
// that. The second one is a member by its own.
func (h *fakeHost) asksForTelemetry() {
	h.secondPod()
	h.sandboxes[0].Namespace, h.sandboxes[0].Ask.Type = "a-shop-2", "telemetry" // its turn is first
	for _, slice := range []string{"kubepods-telemetry.slice", "kubepods-telemetry-burstable.slice"} {
		h.cgroup(partition.CgroupPath(slice), map[string]string{"cpu.weight": "1"})
	}
}

// TestReconcilerRightOvertakes: a pod asks no more while its container is restarted, which comes
// back outside. That says nothing about the other pods, also if it asks again by then.
func TestReconcilerRightOvertakes(t *testing.T) {
	for name, test := range map[string]struct {
		// asks lists what its sandboxes ask for after the container was stopped, four seconds each.
		asks []string
		// all means that no pod is restarted any more.
		all bool
	}{
		"asks no more":         {[]string{""}, false},
		"does not for a while": {[]string{"", "telemetry"}, false},
		"as it was":            {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t)
				h.comesBack = defaultA
				h.asksForTelemetry()
				r, e := h.reconciler(Working, asking(""))
				start(t, r)
				h.awaitRestart()
				for _, asked := range test.asks {
					h.mu.Lock()
					h.sandboxes = slices.Clone(h.sandboxes) // a reconcile may read the former ones
					h.sandboxes[0].Ask.Type = asked
					h.mu.Unlock()
					<-time.After(4 * time.Second) // the container is back after ten
				}
				<-time.After(20 * time.Second)
				synctest.Wait()
				if e.all != test.all || slices.Contains(h.all(), "restart two 3s") == test.all {
					t.Errorf("did %q, no pod is restarted: %t; want %t", h.all(), e.all, test.all)
				}
				if overtaken := len(e.failed) == 1 && errors.Is(e.failed[0], errOvertaken); overtaken == test.all {
					t.Errorf("failures %v", e.failed)
				}
			})
		})
	}
}

// changing is a Placer that changes the configuration between a decision and the move.
type changing struct {
	*fakePlacer
	change func()
}

func (c *changing) Answers(done func(string) bool) map[string]Answer {
	c.change()
	return c.fakePlacer.Answers(done)
}

// TestReconcilerOvertakenAtOnce: the configuration changes after the reading by which a pod is
// moved, and before its container is stopped.
func TestReconcilerOvertakenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.comesBack = defaultA
		h.secondPod()
		h.sandboxes[len(h.sandboxes)-1].Namespace = "monitoring"
		r, e := h.reconciler(Working, members)
		once := sync.OnceFunc(func() { r.SetConfig(inSystem("monitoring")) })
		r.options.Placer = &changing{&h.placer, once}
		start(t, r)
		<-time.After(time.Minute)
		synctest.Wait()
		if did := h.all(); slices.Contains(did, "restart one 3s") || !slices.Contains(did, "restart two 3s") || len(e.failed) > 0 {
			t.Errorf("did %q, failures %v; want the second restarted alone", did, e.failed)
		}
	})
}

// late is a systemd that changes something when it is asked for a slice.
type late struct {
	*fakeHost
	change func()
}

func (l *late) EnsureSlice(ctx context.Context, name, description string, limits cgroups.Limits) error {
	l.change()
	return l.fakeHost.EnsureSlice(ctx, name, description, limits)
}

// TestReconcilerForbiddenAtOnce: an operator forbids moves after the decision of the reconcile that
// would move a pod, and before it is moved.
func TestReconcilerForbiddenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.comesBack = partitionA
		r, e := h.reconciler(Working, members)
		forbidden := inSystem("kube-system")
		forbidden.Mode = Never
		r.options.Units = &late{h, sync.OnceFunc(func() { r.SetConfig(forbidden) })}
		start(t, r)
		<-time.After(time.Hour)
		synctest.Wait()
		if h.restarts() > 0 || len(e.failed) > 0 {
			t.Errorf("did %q, failures %v", h.all(), e.failed)
		}
	})
}

// TestReconcilerOvertakenBetweenContainers: a pod of two containers belongs elsewhere by the time
// that the first one is back. The second one is not stopped for the move that has no reason any
// more.
func TestReconcilerOvertakenBetweenContainers(t *testing.T) {
	for name, test := range map[string]struct {
		members []string
		want    []string
	}{
		"elsewhere":           {[]string{"monitoring"}, []string{"restart one 3s"}},
		"another is a member": {[]string{"kube-system", "monitoring"}, []string{"restart one 3s", "restart three 3s"}},
		"as it was":           {[]string{"kube-system"}, []string{"restart one 3s", "restart three 3s"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t)
				h.comesBack = partitionA
				h.secondContainer()
				r, e := h.reconciler(Working, members)
				start(t, r)
				h.awaitRestart()
				r.SetConfig(inSystem(test.members...))
				if name == "elsewhere" {
					<-time.After(15 * time.Second) // the first container is back, and is moved back
					h.mu.Lock()
					h.comesBack = defaultA
					h.mu.Unlock()
				}
				<-time.After(time.Minute)
				synctest.Wait()
				// A container that is moved back has another ID.
				got := slices.DeleteFunc(h.all(), func(what string) bool {
					return !strings.HasPrefix(what, "restart ") || strings.HasPrefix(what, "restart again")
				})
				if !slices.Equal(got, test.want) || len(e.failed) > 0 {
					t.Errorf("did %q, failures %v; want %q", got, e.failed, test.want)
				}
			})
		})
	}
}

// TestReconcilerAwaitsReady: the next pod is restarted once the kubelet reports the last one Ready
// again.
func TestReconcilerAwaitsReady(t *testing.T) {
	for mode, patient := range map[Mode]bool{Auto: true, OnlyRestart: false} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t)
				h.comesBack = partitionA
				h.secondPod()
				h.ready("one", true)
				c := members
				c.Mode = mode
				r, e := h.reconciler(Working, c)
				start(t, r)
				<-time.After(time.Minute)
				synctest.Wait()
				pods := r.Report().Pods
				if n := h.restarts(); n != 1 || !strings.Contains(pods[1].Next, "kube-system/a was restarted, and is not Ready") {
					t.Fatalf("%d restarts, reported %+v; want the second to wait", n, pods)
				}
				h.ready("again", false) // its new container runs, and is not ready
				<-time.After(time.Hour)
				synctest.Wait()
				if !patient {
					if n := h.restarts(); n != 2 {
						t.Errorf("%d restarts; want that the second is restarted in the end", n)
					}
					return
				}
				if n := h.restarts(); n != 1 || len(e.failed) != 1 {
					t.Fatalf("%d restarts, failures %v; want the second to wait, and one failure", n, e.failed)
				}
				h.ready("again", true)
				<-time.After(time.Minute)
				synctest.Wait()
				if n := h.restarts(); n != 2 {
					t.Errorf("%d restarts, want the second", n)
				}
			})
		})
	}
}

// ready makes the kubelet report that container for the first pod, and whether it is ready.
func (h *fakeHost) ready(id string, ready bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	pod := *h.pods[uidA]
	pod.Ready, pod.Containers = ready, map[string]kubelet.Container{"main": {ID: id, Ready: ready}}
	h.pods = maps.Clone(h.pods)
	h.pods[uidA] = &pod
}

// Pods implements Kubelet.
func (h *fakeHost) Pods() (map[types.UID]*kubelet.Pod, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.node.Pods()
}

// sluggish is a systemd that takes its time for a slice, and does not make it. So each reconcile
// takes that time, and another one follows.
type sluggish struct {
	*fakeHost
	takes        time.Duration
	began, ended []time.Time
}

func (s *sluggish) EnsureSlice(ctx context.Context, _, _ string, _ cgroups.Limits) error {
	s.began = append(s.began, time.Now())
	defer func() { s.ended = append(s.ended, time.Now()) }()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(s.takes):
		return errors.New("busy")
	}
}

// TestReconcilerSlowReconciles: passes take at most a fifth of the time, however many events
// arrive. The pause after a slow one is five seconds, and a reconcile takes thirty at most. The
// reconciler stays alive all the time.
func TestReconcilerSlowReconciles(t *testing.T) {
	for takes, want := range map[time.Duration]struct{ pass, pause time.Duration }{
		500 * time.Millisecond: {500 * time.Millisecond, 2 * time.Second},
		time.Second:            {time.Second, 4 * time.Second},
		10 * time.Second:       {10 * time.Second, 5 * time.Second},
		time.Hour:              {30 * time.Second, 5 * time.Second},
	} {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t)
				r, _ := h.reconciler(Working, members)
				s := &sluggish{fakeHost: h, takes: takes}
				r.options.Units = s
				start(t, r)
				for range 4000 {
					<-time.After(100 * time.Millisecond)
					r.Wake()
					synctest.Wait()
					if err := r.Alive(); err != nil {
						t.Fatal(err)
					}
				}
				if len(s.ended) < 10 {
					t.Fatalf("%d passes in 400 s", len(s.ended))
				}
				for i := 1; i < len(s.ended); i++ {
					if took := s.ended[i].Sub(s.began[i]); took != want.pass {
						t.Errorf("a pass takes %s; want %s", took, want.pass)
					}
					if pause := s.began[i].Sub(s.ended[i-1]); pause < want.pause || pause > want.pause+200*time.Millisecond {
						t.Errorf("a pass begins %s after the last one; want %s", pause, want.pause)
					}
				}
			})
		})
	}
}

// TestReconcilerBackoff: a move that did nothing is tried again after 30 s, and then after twice as
// long each time, at most 30 min.
func TestReconcilerBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.broken = errors.New("no")
		var tried []time.Time
		r, _ := h.reconciler(Unavailable, members)
		r.options.Live = func(context.Context, livemove.Request) error {
			tried = append(tried, time.Now())
			return errors.New("not moved")
		}
		start(t, r)
		<-time.After(4 * time.Hour)
		synctest.Wait()
		if len(tried) < 10 {
			t.Fatalf("tried %d times in four hours", len(tried))
		}
		for i, want := range []time.Duration{30, 60, 120, 240, 480, 960, 1800, 1800, 1800} {
			want *= time.Second
			// Passes are a second apart while one fails.
			if pause := tried[i+1].Sub(tried[i]); pause < want || pause > want+5*time.Second {
				t.Errorf("tried again after %s; want %s", pause, want)
			}
		}
	})
}

// TestDocumentedWaits: docs/placement.md states the waits, each with the number that is in force.
func TestDocumentedWaits(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/placement.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(page)), " ")
	for sentence, waits := range map[string][]time.Duration{
		"half a second after the last event, or two seconds after the first": {
			debounce, 500 * time.Millisecond, maxDebounce, 2 * time.Second,
		},
		"each is bounded by 30 s":                            {reconcileTimeout, 30 * time.Second},
		"The pause after a slow one is five seconds":         {maxPause, 5 * time.Second},
		"repeated after a second":                            {retryInterval, time.Second},
		"retried after 30 s, doubled each time up to 30 min": {firstBackoff, 30 * time.Second, maxBackoff, 30 * time.Minute},
		"has not come back within six minutes":               {moveTimeout, 6 * time.Minute},
		"It is ended after five seconds if neither":          {leftOverAge, 5 * time.Second},
		"if for a minute each reconcile has shown":           {outlivedAge, time.Minute},
	} {
		if !strings.Contains(text, sentence) {
			t.Errorf("docs/placement.md does not say %q", sentence)
		}
		for i := 0; i < len(waits); i += 2 {
			if waits[i] != waits[i+1] {
				t.Errorf("%q: it is %s", sentence, waits[i])
			}
		}
	}
}

// TestReconcilerAnnounced: the slice of a pod that is gone is not stopped while a sandbox of the
// same UID begins: a static pod that is rewritten keeps its UID. It is stopped after that.
func TestReconcilerAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.cgroup(partitionB, map[string]string{"cgroup.events": "populated 0"})
		h.comesBack = partitionA
		h.placer.announced.Store(uidB)
		r, _ := h.reconciler(Working, members)
		start(t, r)
		<-time.After(time.Minute)
		synctest.Wait()
		stop := "stop " + filepath.Base(partitionB)
		if did := h.all(); slices.Contains(did, stop) {
			t.Errorf("did %q, while the pod comes back", did)
		}
		h.placer.announced.Store("")
		<-time.After(time.Minute)
		synctest.Wait()
		if did := h.all(); !slices.Contains(did, stop) {
			t.Errorf("did %q, want %s", did, stop)
		}
	})
}

// TestReconcilerDebounce: a reconcile waits until wake-ups have stopped, but not for ever, and none
// is lost.
func TestReconcilerDebounce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		r, e := h.reconciler(Working, members)
		start(t, r)
		<-time.After(10 * time.Second)
		synctest.Wait()
		before := e.reconciled()
		r.Wake()
		<-time.After(debounce + time.Millisecond)
		synctest.Wait()
		if n := e.reconciled() - before; n != 1 {
			t.Errorf("%d passes after one wake, want 1", n)
		}
		before = e.reconciled()
		const burst = 10 * time.Second
		for range burst / (debounce / 2) {
			r.Wake()
			<-time.After(debounce / 2)
		}
		<-time.After(debounce)
		synctest.Wait()
		if n := e.reconciled() - before; n < int(burst/maxDebounce)-2 || n > int(burst/maxDebounce)+1 {
			t.Errorf("%d passes in %s of wakes, want one in each %s", n, burst, maxDebounce)
		}
	})
}

// TestReconcilerRuntimeFails: while the runtime does not answer nothing is stopped, killed or
// moved.
func TestReconcilerRuntimeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.cgroup(partitionB, nil) // left over
		h.err = errors.New("connection refused")
		r, e := h.reconciler(Working, members)
		start(t, r)
		<-time.After(time.Minute)
		synctest.Wait()
		if did := h.all(); len(did) != 0 {
			t.Errorf("did %q", did)
		}
		if len(e.failed) != 1 || !errors.Is(r.Ready(), h.err) || r.Alive() != nil {
			t.Errorf("failures %v, ready %v, alive %v; want one failure", e.failed, r.Ready(), r.Alive())
		}
		h.mu.Lock()
		h.err = nil
		h.mu.Unlock()
		<-time.After(5 * time.Second)
		synctest.Wait()
		if did := h.all(); !slices.Contains(did, "stop "+filepath.Base(partitionB)) || r.Ready() != nil {
			t.Errorf("did %q, ready %v", did, r.Ready())
		}
	})
}

// TestReconcilerFailedReconcile: a reconcile that could not read the node leaves the report, and
// what is known of a pod that was stopped in vain, as they were.
func TestReconcilerFailedReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		r, _ := h.reconciler(Working, members)
		start(t, r)
		<-time.After(moveTimeout + time.Minute)
		h.cgroup(defaultA+"/cri-containerd-late.scope", nil)
		set := func(err error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.err = err
			h.containers = append(h.containers[:1], cri.Container{ID: "late", SandboxID: "pause1", Name: "main", State: cri.Running})
		}
		set(nil)
		<-time.After(time.Minute)
		set(errors.New("connection refused"))
		r.Wake()
		<-time.After(time.Minute)
		synctest.Wait()
		if pods := r.Report().Pods; r.Ready() == nil || len(pods) != 1 || pods[0].Reason != report.Failed {
			t.Errorf("ready %v, reported %+v; want the report of the last pass that could read", r.Ready(), pods)
		}
		set(nil)
		<-time.After(time.Hour)
		synctest.Wait()
		if n := h.restarts(); n != 1 {
			t.Errorf("%d restarts; want that the pod is not restarted again", n)
		}
	})
}
