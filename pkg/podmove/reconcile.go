package podmove

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/cri"
	"nodepartition/internal/unitname"
)

// Units is what is asked of systemd. *systemd.Client is one.
type Units interface {
	// EnsureSlice makes a slice, or gives limits to one that is there.
	EnsureSlice(ctx context.Context, name, description string, limits cgroupfs.Limits) error
	// SetCPUWeight sets the weight of a slice.
	SetCPUWeight(ctx context.Context, name string, weight uint64) error
	// SetMemoryProtection sets memory.min and memory.low of a slice.
	SetMemoryProtection(ctx context.Context, name string, p cgroupfs.Protection) error
	// StopSlice ends an empty slice and removes what was set on it.
	StopSlice(ctx context.Context, name string) error
	// StopScope kills what is in a scope.
	StopScope(ctx context.Context, name string) error
}

// Mover moves one container.
type Mover interface {
	// Restart stops a container with its grace period.
	Restart(ctx context.Context, id string, grace time.Duration) error
	// Live takes the processes of scope in slice from over into a scope in slice to.
	Live(ctx context.Context, from, scope, to, newScope, description string) error
}

// Reconciler makes the node as its configuration asks, again and again.
type Reconciler struct {
	Gatherer *Gatherer
	Units    Units
	Mover    Mover
	Placer   Placer
	Observer Observer
	// NRI tells the state of creation-time placement.
	NRI func() NRIState
	// Table is shared with eviction. A pod that is being evicted ends, and the kubelet will report that.
	Table *Table
	// Journal hears what is done and why, and what fails.
	Journal Journal
	// Tick is the longest time between two passes.
	Tick time.Duration

	wake, urge chan struct{}

	mu      sync.Mutex
	config  Config
	report  Report
	passed  chan struct{} // closed at the end of each pass
	lastErr error
	moving  string
	awaited []string // namespaces and names of pods that were restarted and are not Ready again
	orders  map[types.NamespacedName]*order
	failed  map[string]failure
	// restartsFail tells that a restarted container came back where it was. It holds until the runtime
	// connects again, which it has done so many times, or the configuration changes.
	restartsFail bool
	connections  int
	formula      Formula
	passes       int
	beat         time.Time
}

// failure is a pod whose move failed.
type failure struct {
	until time.Time
	times int
	// givenUp says that it was stopped in vain, and is not to be stopped again.
	givenUp bool
}

const (
	// soon is when to look again where something is about to change without an event.
	soon = time.Second
	// quiet is how long nothing may have woken it before a pass begins, and patience how long wakes put a pass off: they are the steps in
	// which containers start and end, which have the CPU first. What waits for a pass is an in-place resize: new
	// containers are placed, and the slices of their pods made, without one.
	quiet, patience = 500 * time.Millisecond, 2 * time.Second
	// firstBackoff and maxBackoff are how long a pod is left alone after a move that failed, doubled each time.
	firstBackoff, maxBackoff = 30 * time.Second, 30 * time.Minute
	// maxPause is how long a slow pass puts off the next one, which may find work that cannot wait.
	maxPause = 5 * time.Second
	// passTimeout bounds a pass: while systemd does not answer, each of five hundred slices takes the client's timeout.
	passTimeout = 30 * time.Second
	// moveTimeout is how long a stopped container may take to come back: the kubelet's longest back-off is five minutes
	// (MaxContainerBackOff, pkg/kubelet/kubelet.go).
	moveTimeout = 6 * time.Minute
)

// NewReconciler returns one that has yet to get its fields.
func NewReconciler() *Reconciler {
	return &Reconciler{
		wake: make(chan struct{}, 1), urge: make(chan struct{}, 1), passed: make(chan struct{}), failed: map[string]failure{},
		orders: map[types.NamespacedName]*order{}, Table: &Table{}, formula: Linear, beat: time.Now(),
	}
}

// Wake has a pass made soon. It returns at once.
func (r *Reconciler) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Urge has a pass made now: somebody has to know who a pod is before memory is gone. It returns at once.
func (r *Reconciler) Urge() {
	select {
	case r.urge <- struct{}{}:
	default:
	}
}

// SetConfig gives another configuration, which the next pass follows.
func (r *Reconciler) SetConfig(c Config) {
	r.mu.Lock()
	if r.config.Off != c.Off || r.config.Mode != c.Mode || !slices.Equal(r.config.Namespaces, c.Namespaces) {
		r.forgive()
	}
	r.config = c
	r.mu.Unlock()
	r.Placer.SetConfig(c)
	r.Wake()
}

// forgive has pods restarted again that were stopped in vain. It is called with mu held.
func (r *Reconciler) forgive() {
	r.restartsFail = false
	for uid, f := range r.failed {
		if f.givenUp {
			delete(r.failed, uid)
		}
	}
}

// Report returns what the last pass found.
func (r *Reconciler) Report() Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.report
}

// Err returns why the last pass failed, nil where all of it was done.
func (r *Reconciler) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lastErr
}

// errNoPass says that nothing is known yet.
var errNoPass = errors.New("the node has not been looked at yet")

// Ready returns nil when the last pass was done, and otherwise why it was not.
func (r *Reconciler) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lastErr == nil && r.passes == 0 {
		return errNoPass
	}
	return r.lastErr
}

// Alive returns an error when no pass has begun or ended for longer than one can take.
func (r *Reconciler) Alive() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if since := time.Since(r.beat); since > r.Tick+passTimeout+maxPause+10*time.Second {
		return fmt.Errorf("no pass has begun or ended for %s", since.Round(time.Second))
	}
	return nil
}

func (r *Reconciler) alive() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beat = time.Now()
}

// Run makes passes until ctx ends, or until the partition is switched off and nothing is left in it: then it returns nil.
func (r *Reconciler) Run(ctx context.Context) error {
	moves := sync.WaitGroup{}
	defer moves.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		begin := time.Now()
		r.alive()
		decision, err := r.pass(ctx)
		r.alive()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		took := time.Since(begin)
		r.Observer.Reconciled(took, err)
		if err == nil && decision.Done {
			return nil
		}
		if decision.Move != nil {
			moves.Go(func() { r.move(ctx, decision.Move) })
		}
		next := r.Tick
		if err != nil || decision.Wait || decision.Move != nil || r.isMoving() {
			next = min(next, soon)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.urge:
			continue
		case <-r.wake:
		case <-time.After(next):
		}
		r.alive()
		// Passes take at most a fifth of the time, whatever the node has to say, unless they are slow.
		if err := r.settled(ctx, min(4*took, maxPause)); err != nil {
			return err
		}
	}
}

// settled waits for that long at least, and until nothing has woken it for a while, as far as patience goes.
func (r *Reconciler) settled(ctx context.Context, least time.Duration) error {
	begin := time.Now()
	for wait := max(least, quiet); wait > 0; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
			return nil
		case <-r.urge:
			return nil
		case <-r.wake:
			passed := time.Since(begin)
			wait = max(least-passed, min(quiet, patience-passed))
		}
	}
	return nil
}

func (r *Reconciler) isMoving() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.moving != ""
}

// pass looks, decides and acts once.
func (r *Reconciler) pass(ctx context.Context) (Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	snapshot, err := r.snapshot(ctx)
	if err != nil {
		r.finish(nil, nil, err)
		return Decision{}, err
	}
	// Before anything is done about them, which takes its time where systemd does not answer: an eviction does not wait for that.
	r.Table.SetPods(snapshot.Pods)
	decision := Decide(snapshot)
	r.confirm(snapshot)
	if decision.Move != nil {
		r.mu.Lock()
		r.begin(decision.Move)
		r.mu.Unlock()
	}
	err = r.act(ctx, decision)
	r.finish(snapshot.Pods, decision.Pods, err)
	return decision, err
}

// snapshot reads what a pass decides from.
func (r *Reconciler) snapshot(ctx context.Context) (Snapshot, error) {
	r.mu.Lock()
	config := r.config
	r.mu.Unlock()
	s, err := r.Gatherer.Snapshot(ctx, config, r.NRI())
	if err != nil {
		return Snapshot{}, err
	}
	for i := range s.Pods {
		if r.Table.Evicting(s.Pods[i].UID) {
			s.Pods[i].terminate()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Config, s.NRI = r.config, r.NRI() // they may have changed meanwhile
	if n := r.Placer.Connections(); n != r.connections {
		r.connections = n
		r.forgive()
	}
	r.formula = kubeletFormula(s.Pods, r.formula)
	s.Formula, s.Moving, s.RestartsFail = r.formula, r.moving, r.restartsFail
	s.Awaited, s.Ordered = strings.Join(r.awaited, ", "), r.takeOrders()
	s.Backoff, s.GivenUp = map[string]bool{}, map[string]bool{}
	for uid, f := range r.failed {
		s.Backoff[uid], s.GivenUp[uid] = time.Now().Before(f.until), f.givenUp
	}
	return s, nil
}

// act does what was decided. What fails does not keep the rest from being done.
func (r *Reconciler) act(ctx context.Context, d Decision) error {
	var errs []error
	for _, s := range d.Ensure {
		errs = append(errs, r.Units.EnsureSlice(ctx, s.Name, s.Description, s.Limits))
	}
	for _, w := range d.Weights {
		errs = append(errs, r.Units.SetCPUWeight(ctx, w.Slice, w.Weight))
	}
	for _, p := range d.Protect {
		errs = append(errs, r.Units.SetMemoryProtection(ctx, p.Slice, p.Memory))
	}
	for _, scope := range d.KillScopes {
		r.Journal.Killing(scope)
		errs = append(errs, r.Units.StopScope(ctx, scope))
	}
	for _, stop := range d.Stop {
		// A static pod that is written again keeps its UID: it may have come back since we looked.
		if r.Placer.IsAnnounced(stop.UID) {
			continue
		}
		errs = append(errs, r.Units.StopSlice(ctx, stop.Slice))
	}
	return errors.Join(errs...)
}

func (r *Reconciler) finish(pods []Pod, reports []PodReport, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && (r.lastErr == nil || r.lastErr.Error() != err.Error()) {
		r.Journal.PassFailed(err)
	} else if err == nil && r.lastErr != nil {
		r.Journal.PassesAgain()
	}
	r.lastErr = err
	r.passes++
	if pods == nil && err != nil {
		return // nothing new is known
	}
	r.report = Report{Time: time.Now(), Pods: reports}
	for _, o := range r.orders {
		o.seen = o.taken
	}
	there := map[string]bool{}
	for _, pod := range pods {
		there[pod.UID] = true
	}
	for uid := range r.failed {
		if !there[uid] {
			delete(r.failed, uid)
		}
	}
	close(r.passed)
	r.passed = make(chan struct{})
}

// confirm reports the placements at creation that can be seen, or that did not come true.
func (r *Reconciler) confirm(s Snapshot) {
	at := map[string]string{}
	wanted := map[string]string{}
	for _, pod := range s.Pods {
		for _, c := range pod.Containers {
			if c.Running && c.Slice != "" {
				at[c.ID], wanted[c.ID] = c.Slice, pod.Guest.Slice
			}
		}
	}
	for id, answer := range r.Placer.Answers(func(id string) bool { return at[id] != "" }) {
		switch {
		case answer.Err != nil:
			r.Journal.NotPlaced(id, answer.Err)
			r.Observer.Placed(Creation, s.Config.Partition, Failed, answer.Took)
		case at[id] != wanted[id]:
			r.Journal.NotPlaced(id, fmt.Errorf("the runtime put it in %s; it was told %s", at[id], wanted[id]))
			r.Observer.Placed(Creation, s.Config.Partition, Failed, answer.Took)
		default:
			r.Observer.Placed(Creation, s.Config.Partition, Succeeded, answer.Took)
		}
	}
}

// move moves a pod, waits until it is where it belongs, and keeps the outcome.
func (r *Reconciler) move(ctx context.Context, m *Move) {
	var err error
	for _, c := range m.Containers {
		begin := time.Now()
		r.Journal.Moving(*m, c)
		if m.Way == Restart {
			err = r.restart(ctx, m, c)
		} else {
			err = r.live(ctx, m, c)
		}
		if ctx.Err() != nil {
			break // the next start finds what is left to do
		}
		result := Succeeded
		if err != nil {
			result = Failed
		}
		r.Observer.Placed(m.Way, m.To, result, time.Since(begin))
		if err != nil {
			r.say(m, c, err)
			break
		}
	}
	r.mu.Lock()
	r.moving = ""
	if err != nil {
		f := r.failed[m.UID]
		f.until = time.Now().Add(min(firstBackoff<<min(f.times, 10), maxBackoff))
		f.times++
		f.givenUp = errors.Is(err, errInVain)
		r.failed[m.UID] = f
		r.restartsFail = r.restartsFail || errors.Is(err, errWrongPlace)
	} else {
		delete(r.failed, m.UID)
	}
	restarted := m.Way == Restart && m.WasReady
	if restarted {
		r.awaited = append(r.awaited, m.Namespace+"/"+m.Name)
	}
	if err != nil || !restarted {
		r.answer(m, err)
	}
	r.mu.Unlock()
	r.Wake()
	if restarted {
		r.await(ctx, m)
	}
}

var (
	// errInVain says that a container was stopped to be moved and was not moved by that.
	errInVain = errors.New("it was stopped in vain")
	// errWrongPlace says that it came back where it was not to be: what places containers does not, and
	// another one would not be placed either.
	errWrongPlace = fmt.Errorf("%w: it came back in the wrong place", errInVain)
)

// say tells why a move failed, and whether it is tried again.
func (r *Reconciler) say(m *Move, c Container, err error) {
	if errors.Is(err, errInVain) {
		r.Journal.GivenUp(*m, c, err, errors.Is(err, errWrongPlace))
		return
	}
	r.Journal.MoveFailed(*m, c, err)
}

// await waits until a pod that was restarted is Ready again, or gone. Where restarts spare nobody it has no
// longer for that than a container has to come back.
func (r *Reconciler) await(ctx context.Context, m *Move) {
	late := time.After(moveTimeout)
	for {
		r.mu.Lock()
		passed, pods, mode := r.passed, r.Table.Pods(), r.config.Mode
		r.mu.Unlock()
		over := isReady(pods, m)
		if !over {
			select {
			case <-passed:
			case <-late:
				r.Journal.NotReady(*m)
				over = mode == OnlyRestart
				r.mu.Lock()
				r.answer(m, fmt.Errorf("%s/%s is in its place, and not Ready again after %s", m.Namespace, m.Name, moveTimeout))
				r.mu.Unlock()
			case <-ctx.Done():
				return
			}
		}
		if over {
			r.mu.Lock()
			if i := slices.Index(r.awaited, m.Namespace+"/"+m.Name); i >= 0 {
				r.awaited = slices.Delete(r.awaited, i, i+1)
			}
			r.answer(m, nil)
			r.mu.Unlock()
			r.Wake()
			return
		}
	}
}

// isReady tells whether nothing is to be waited for: the pod and the containers that were moved are ready,
// or it ends, or nobody tells.
func isReady(pods []Pod, m *Move) bool {
	for _, pod := range pods {
		if pod.UID != m.UID || !pod.Exists {
			continue
		}
		if pod.Kubelet == nil || pod.Kubelet.Terminating {
			return true
		}
		return pod.Kubelet.Ready && !slices.ContainsFunc(m.Containers, func(moved Container) bool {
			return !slices.ContainsFunc(pod.Containers, func(c Container) bool { return c.Name == moved.Name && c.Ready })
		})
	}
	return true
}

func (r *Reconciler) live(ctx context.Context, m *Move, c Container) error {
	scope := unitname.RuntimeScope(c.Unit)
	if m.To != unitname.Default {
		scope = unitname.LiveScope(c.Unit)
	}
	return r.Mover.Live(ctx, c.Slice, c.Unit, m.Slice, scope, "Container "+c.Name+" of "+m.Namespace+"/"+m.Name)
}

func (r *Reconciler) restart(ctx context.Context, m *Move, c Container) error {
	if err := r.Mover.Restart(ctx, c.ID, m.GracePeriod); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	for {
		r.mu.Lock()
		passed, pods := r.passed, r.Table.Pods()
		r.mu.Unlock()
		if over, err := cameBack(pods, m, c); over {
			return err
		}
		select {
		case <-passed:
		case <-ctx.Done():
			return fmt.Errorf("container %s of pod %s/%s is not running again after %s: %w: %w",
				c.Name, m.Namespace, m.Name, moveTimeout, errInVain, context.Cause(ctx))
		}
	}
}

// cameBack looks for the container that the kubelet started in place of one that was stopped.
func cameBack(pods []Pod, m *Move, old Container) (over bool, err error) {
	exists := false
	for _, pod := range pods {
		if pod.UID != m.UID || !pod.Exists {
			continue
		}
		exists = true
		for _, c := range pod.Containers {
			if c.Name != old.Name || c.ID == old.ID || !c.Running || c.Slice == "" {
				continue
			}
			if c.Slice != m.Slice {
				return true, fmt.Errorf("container %s of pod %s/%s came back in %s; want %s: %w", c.Name, m.Namespace, m.Name, c.Slice, m.Slice, errWrongPlace)
			}
			return true, nil
		}
	}
	// A pod that went meanwhile has nothing to be moved.
	return !exists, nil
}

// Prepare makes the slice of a pod whose sandbox has begun, so that it has its limits before its first container.
func (r *Reconciler) Prepare(ctx context.Context, s cri.Sandbox, q v1.PodQOSClass) {
	home := unitname.CgroupPath(unitname.PodSlice(unitname.Default, q, s.UID))
	limits, err := r.Gatherer.Cgroups.Limits(home)
	if err != nil {
		r.Wake() // a pass does it, or finds the pod gone
		return
	}
	if err := r.Units.EnsureSlice(ctx, unitname.PodSlice(r.Gatherer.Partition, q, s.UID), Description(s.Namespace, s.Name), limits); err != nil {
		r.Journal.NotPrepared(s.Namespace, s.Name, err)
		r.Wake()
	}
}
