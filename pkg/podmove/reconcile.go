package podmove

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// Units changes units of systemd. *systemd.Client implements it.
type Units interface {
	// EnsureSlice creates a slice, or changes the limits of an existing one.
	EnsureSlice(ctx context.Context, name, description string, limits cgroups.Limits) error
	// SetCPUWeight sets the weight of a slice.
	SetCPUWeight(ctx context.Context, name string, weight uint64) error
	// SetMemoryProtection sets memory.min and memory.low of a slice.
	SetMemoryProtection(ctx context.Context, name string, p cgroups.Protection) error
	// SetScopeCPU sets the weight of a container's scope, and its quota in microseconds per second. A
	// quota of 0 stays as it is, and cgroups.Unlimited lifts it. It returns nil for a scope that is
	// gone.
	SetScopeCPU(ctx context.Context, name string, weight, quotaPerSec uint64) error
	// StopSlice stops an empty slice and removes the properties that were set on it.
	StopSlice(ctx context.Context, name string) error
	// StopScope kills the processes in a scope.
	StopScope(ctx context.Context, name string) error
}

// Reconciler keeps the node as its configuration describes it.
type Reconciler struct {
	*Signals
	options Options

	mu     sync.Mutex
	config Policy
	rules  partition.Rules
	passed chan struct{} // closed at the end of each reconcile
	// lastErr is why the last reconcile failed, and beat is when one has begun or ended.
	lastErr error
	beat    time.Time
	moves
	// The formulas of cpu.weight that the kubelet and the runtime use.
	formula, runtime admission.WeightFormula
	// recorded holds what the last reconcile has set, and stored what is in the file of that.
	recorded, stored record
}

// moves holds the state of the moves.
type moves struct {
	moving   string
	underway map[string]*underway // by UID
	orders   []*order             // not answered
	failed   map[string]failure
	// restartsFail means that a restarted container came back in the wrong place. It holds until the
	// runtime connects again (connections counts that) or the configuration changes.
	restartsFail bool
	connections  int
}

// failure is a pod whose move failed.
type failure struct {
	until time.Time
	times int
	// givenUp means that it was stopped in vain and is not stopped again.
	givenUp bool
}

const (
	// retryInterval is the time to the next reconcile if something is about to change without an
	// event.
	retryInterval = time.Second
	// A reconcile begins after debounce without a wake-up, and at most maxDebounce after the first
	// one, so that containers that start or stop get the CPU first. Only in-place resizes wait for
	// a reconcile: new containers are placed, and the slices of their pods made, without one.
	debounce, maxDebounce = 500 * time.Millisecond, 2 * time.Second
	// maxPause bounds how long a slow reconcile delays the next one, which may find urgent work.
	maxPause = 5 * time.Second
	// fullLook is the time without a reconcile while nothing happens. The reconcile after an event and
	// the one at the next tick are made: a write of the kubelet's may come after its event.
	fullLook = 5 * time.Minute
	// reconcileTimeout bounds a reconcile. While systemd does not answer, each of five hundred slices
	// takes the client's timeout.
	reconcileTimeout = 30 * time.Second
)

// New returns a Reconciler that has no configuration yet.
func New(o Options) *Reconciler {
	return &Reconciler{
		Signals: o.Signals, options: o, passed: make(chan struct{}), lastErr: errNoReconcile, beat: time.Now(),
		moves:   moves{failed: map[string]failure{}, underway: map[string]*underway{}},
		formula: admission.LinearWeight, runtime: admission.LinearWeight,
	}
}

// SetConfig sets another configuration, which the next reconcile follows.
func (r *Reconciler) SetConfig(c Policy) {
	r.mu.Lock()
	if !r.config.sameMembers(c) {
		for _, u := range r.underway {
			//guard: a move does not begin after it was forbidden
			u.overtaken = true // no reconcile may see it, if it changes back
		}
		r.restartsFail = false
		clear(r.failed)
	}
	r.config, r.rules = c, c.Rules()
	rules := r.rules
	r.overtake(r.options.Table.Pods(), rules) // a live move goes on without a reconcile
	r.mu.Unlock()
	r.options.Placer.SetRules(rules)
	r.Wake()
}

// Config returns the configuration that the next reconcile follows.
func (r *Reconciler) Config() Policy {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.config
}

// Report returns the report of the last reconcile.
func (r *Reconciler) Report() report.Report { return r.options.Table.Report() }

// errNoReconcile means that no reconcile has finished yet.
var errNoReconcile = errors.New("no reconcile has finished yet")

// Ready returns nil if the last reconcile did everything, and otherwise the reason.
func (r *Reconciler) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lastErr
}

// Alive returns an error if no reconcile has begun or ended for longer than one can take.
func (r *Reconciler) Alive() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if since := time.Since(r.beat); since > r.options.Tick+reconcileTimeout+maxPause+10*time.Second {
		return fmt.Errorf("no reconcile has begun or ended for %s", since.Round(time.Second))
	}
	return nil
}

func (r *Reconciler) alive() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beat = time.Now()
}

// errStopped answers the orders that are left when Run returns.
var errStopped = errors.New("the monitor does not reconcile any more")

// Run makes passes, and the slices of announced pods, until ctx ends. It returns nil once all
// partitions are switched off and empty.
func (r *Reconciler) Run(ctx context.Context) error {
	work := sync.WaitGroup{}
	defer r.refuseOrders(errStopped)
	defer work.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	//guard: announced pods do not wait for an interrupted move
	work.Go(func() { r.prepareAll(ctx) })
	r.options.Recover(ctx)
	r.recall()
	last := time.Now()
	for calm := 0; ; calm++ {
		begin, next, took := time.Now(), r.options.Tick, time.Duration(0)
		r.alive()
		//guard: the node is read after an event, and once more
		//guard: the node is read now and then although nothing happens
		if calm > 1 && begin.Sub(last) < fullLook && r.hears() {
			r.options.Events.Quiet()
		} else {
			decision, err := r.pass(ctx)
			r.alive()
			if ctx.Err() != nil {
				return ctx.Err()
			}
			last, took = begin, time.Since(begin)
			r.options.Events.Reconciled(took, err)
			if err == nil && decision.Done {
				return nil
			}
			if decision.Move != nil {
				work.Go(func() { r.move(ctx, decision.Move) })
			}
			if err != nil || decision.Wait || decision.Move != nil || r.isMoving() {
				next = min(next, retryInterval)
			}
			//guard: what has to be done later is not forgotten while nothing happens
			if err != nil || decision.acts() || decision.Wait || r.isPending() || !r.hears() {
				calm = 0
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.urge:
			calm = -1
			continue
		case <-r.wake:
			calm = -1
		case <-time.After(next):
		}
		r.alive()
		// Passes take at most a fifth of the time, however many events arrive, unless they are slow.
		woken, err := r.settled(ctx, min(4*took, maxPause))
		if err != nil {
			return err
		}
		if woken {
			calm = -1
		}
	}
}

// settled waits for at least that long, and until no wake-up has come for debounce, but not beyond
// maxDebounce for that. Urge ends the wait at once. It reports whether one of the two came.
func (r *Reconciler) settled(ctx context.Context, least time.Duration) (woken bool, err error) {
	begin := time.Now()
	for wait := max(least, debounce); wait > 0; {
		select {
		case <-ctx.Done():
			return woken, ctx.Err()
		case <-time.After(wait):
			return woken, nil
		case <-r.urge:
			return true, nil
		case <-r.wake:
			woken = true
			passed := time.Since(begin)
			wait = max(least-passed, min(debounce, maxDebounce-passed))
		}
	}
	return woken, nil
}

// hears reports whether whatever changes on the node comes with an event. Only a kubelet that
// answers has one for each resize. NRI that is awaited counts as switched off after a time.
func (r *Reconciler) hears() bool {
	//guard: a kubelet that is away does not tell of a resize
	return r.options.Gatherer.Kubelet.Answers() && r.options.NRI() != Awaited
}

// isPending reports whether a reconcile is to find that a time is over, or what becomes of a move.
func (r *Reconciler) isPending() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.failed {
		if time.Now().Before(f.until) {
			return true
		}
	}
	return len(r.underway)+len(r.orders)+len(r.options.Gatherer.forgotten.due) > 0
}

func (r *Reconciler) isMoving() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.moving != ""
}

// pass reads, decides and acts once.
func (r *Reconciler) pass(ctx context.Context) (Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	snapshot, err := r.snapshot(ctx)
	if err != nil {
		r.refuseOrders(err)
		r.finish(nil, Decision{}, err)
		return Decision{}, err
	}
	// Before acting, which takes long if systemd does not answer. An eviction does not wait for that.
	r.options.Table.setPods(snapshot.Pods)
	decision := Decide(snapshot)
	r.confirm(snapshot)
	r.judgeOrders(snapshot, &decision)
	// A step that fails may have been carried out all the same.
	err = errors.Join(
		//guard: the record is written before the scopes are
		r.record(record{snapshot.Raised.AtLeast(decision.Raised), snapshot.CPU.until(decision.CPU, decision.Scopes)}),
		r.act(ctx, decision),
	)
	if err == nil {
		err = r.record(record{decision.Raised, decision.CPU})
	}
	r.finish(snapshot.Pods, decision, err)
	return decision, err
}

// snapshot reads the input of a reconcile's decision.
func (r *Reconciler) snapshot(ctx context.Context) (Snapshot, error) {
	r.mu.Lock()
	config, rules, protections := r.config, r.rules, r.recorded.Raised.AtLeast(r.config.floor())
	moving := r.moving
	r.mu.Unlock()
	s, err := r.options.Gatherer.Snapshot(ctx, config, rules, r.options.NRI())
	if err != nil {
		return Snapshot{}, err
	}
	r.options.Gatherer.readParent(&s, protections)
	for i := range s.Pods {
		if r.options.Table.isEvicting(s.Pods[i].UID) {
			s.Pods[i].terminate()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.NRI = r.options.NRI() // it may have changed meanwhile
	s.follow(r.config, r.rules)
	//guard: a restart of a pod that belongs elsewhere by now stops no other
	r.overtake(s.Pods, s.Rules)
	if n := r.options.Placer.Connections(); n != r.connections {
		r.connections, r.restartsFail = n, false
		for uid, f := range r.failed {
			//guard: a connection that comes and goes restarts no pod each time
			f.givenUp = false // and its back-off goes on
			r.failed[uid] = f
		}
	}
	r.formula, r.runtime = kubeletFormula(s.Pods, r.formula), runtimeFormula(s.Pods, r.runtime)
	s.CPU, s.Formula, s.Runtime = r.recorded.CPURecord, r.formula, r.runtime
	//guard: a pod whose move ends while its places are read is not moved again
	s.Moving = cmp.Or(r.moving, moving)
	s.RestartsFail, s.Raised = r.restartsFail, r.recorded.Raised
	s.Awaited, s.Ordered = r.awaitedPods(), r.takeOrders(s.Pods)
	s.Backoff, s.GivenUp = map[string]bool{}, map[string]bool{}
	for uid, f := range r.failed {
		s.Backoff[uid], s.GivenUp[uid] = time.Now().Before(f.until), f.givenUp
	}
	return s, nil
}

// act carries out a decision. A failed step does not stop the others.
func (r *Reconciler) act(ctx context.Context, d Decision) error {
	var errs []error
	for _, s := range d.Ensure {
		errs = append(errs, r.options.Units.EnsureSlice(ctx, s.Name, s.Description, s.Limits))
	}
	for _, w := range d.Weights {
		errs = append(errs, r.options.Units.SetCPUWeight(ctx, w.Slice, w.Weight))
	}
	for _, c := range d.Scopes {
		errs = append(errs, r.options.Units.SetScopeCPU(ctx, c.Name, c.CPU.Weight, c.CPU.QuotaPerSec))
	}
	for _, p := range d.Protect {
		errs = append(errs, r.options.Units.SetMemoryProtection(ctx, p.Slice, p.Memory))
	}
	for _, scope := range d.KillScopes {
		r.options.Events.Killing(scope)
		errs = append(errs, r.options.Units.StopScope(ctx, scope))
	}
	for _, o := range d.Outlived {
		if o.Due {
			r.options.Events.Outlived(o)
		}
		if o.Due && o.Kill {
			errs = append(errs, r.options.Units.StopScope(ctx, o.Scope))
		}
	}
	for _, stop := range d.Stop {
		// A static pod that is rewritten keeps its UID: it may have come back since the snapshot.
		//guard: the slice of a pod that was announced again is not stopped
		if r.options.Placer.IsAnnounced(stop.UID) {
			continue
		}
		errs = append(errs, r.options.Units.StopSlice(ctx, stop.Slice))
	}
	return errors.Join(errs...)
}

func (r *Reconciler) finish(pods []Pod, d Decision, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastErr = err
	//guard: a failed pass keeps the report of the one before
	if pods == nil && err != nil {
		return // nothing new is known
	}
	r.reportFlaws(r.options.Table.Report().Pods, d.Pods)
	r.options.Table.setReport(report.Report{Time: time.Now(), Pods: d.Pods, Outlived: d.Outlived, Empty: d.Empty})
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

// confirm reports the placements at creation whose containers run now, and those in the wrong
// slice.
func (r *Reconciler) confirm(s Snapshot) {
	at := map[string]string{}
	pods := map[string]*Pod{}
	for i := range s.Pods {
		for _, c := range s.Pods[i].Containers {
			if c.Running && c.Slice != "" {
				at[c.ID], pods[c.ID] = c.Slice, &s.Pods[i]
			}
		}
	}
	for id, answer := range r.options.Placer.Answers(func(id string) bool { return at[id] != "" }) {
		err, wanted := answer.Err, pods[id].Cgroup(answer.To).Slice
		if err == nil && at[id] != wanted {
			err = fmt.Errorf("the runtime put it in %s; the answer to it was %s", at[id], wanted)
		}
		r.options.Events.Placed(
			Placement{Method: Creation, To: answer.To, Took: answer.Took, Err: err, Container: Container{ID: id}},
		)
	}
}

// prepareAll prepares the slices of announced pods until ctx ends.
func (r *Reconciler) prepareAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-r.announced:
			r.prepare(ctx, a)
		}
	}
}

// prepare creates the slice of a member whose sandbox has begun, so that the slice has its limits
// before the first container.
func (r *Reconciler) prepare(ctx context.Context, a Announcement) {
	r.mu.Lock()
	s := Snapshot{Config: r.config, Formula: r.formula, CPU: r.recorded.CPURecord}
	r.mu.Unlock()
	//guard: no slice is made in a partition that was switched off since the sandbox began
	if !s.Config.isOn(a.Place.Partition) {
		return
	}
	defaultSlice := partition.CgroupPath(partition.PodSlice(partition.Default, a.QoS, a.UID))
	limits, err := r.options.Gatherer.Cgroups.Limits(defaultSlice)
	if err != nil {
		r.Wake() // a reconcile creates it, or finds the pod gone
		return
	}
	pod := &Pod{UID: a.UID, DefaultCgroup: PodCgroup{Limits: limits}, annotations: annotations{a.Origin, a.Requested}}
	known, _ := r.options.Gatherer.Kubelet.Pods()
	pod.reported(known[types.UID(a.UID)])
	limits = s.limitsIn(pod, a.Place, a.Place.Partition)
	slice := partition.PodSlice(a.Place.Partition, a.QoS, a.UID)
	if err := r.options.Units.EnsureSlice(ctx, slice, Description(a.Namespace, a.Name), limits); err != nil {
		r.options.Events.NotPrepared(a.Namespace, a.Name, err)
		r.Wake()
	}
}

// reportFlaws reports annotations that are not followed and were not in the report before.
func (r *Reconciler) reportFlaws(before, now []report.Pod) {
	known := map[string]string{}
	for _, pod := range before {
		if pod.Workload != nil {
			known[pod.UID] = pod.Workload.Flaw
		}
	}
	for _, pod := range now {
		if pod.Workload != nil && pod.Workload.Flaw != known[pod.UID] && pod.Workload.Flaw != "" {
			r.options.Events.NotFollowed(pod, pod.Workload.Flaw)
		}
	}
}
