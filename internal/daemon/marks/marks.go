// Package marks keeps what this program has on the Node of this node: the labels and the condition
// SystemPartitionReady, and the condition SystemPartitionPressure. Each of the two is an option.
//
// It writes them with one patch when they change, and a heartbeat every five minutes on average.
// The times of the heartbeats are drawn, so that the nodes of a cluster do not come at once after
// an outage of its API server. It does not read the Node: without a change a node has one request
// in five minutes. A readiness that is worse has to last for a minute before it is written, because
// others make taints of it: a restart of this program, of the runtime or of a pod changes nothing.
// After a boot the Node still has the last values of the former boot, and is written at once. The
// state file is on a tmpfs, so its lack shows that. With it a restart continues where the run
// before has ended.
package marks

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodepartition/internal/daemon/faults"
	"nodepartition/internal/kubeapi"
	"nodepartition/internal/nodelabel"
	"nodepartition/internal/statefile"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
)

const (
	// look is the interval between two readings of the facts, and heartbeat the mean interval between
	// two writes without a change, as for the kubelet's conditions (nodeStatusReportFrequency) and in
	// node-problem-detector.
	look      = time.Second
	heartbeat = 5 * time.Minute
	// settle is the time for which a readiness that is not True has to last before it is written.
	settle = time.Minute
	// patience is the time for which a Node may not exist before that is logged: its kubelet starts
	// after this program.
	patience = 2 * time.Minute
	// lastTimeout bounds the last write, and the removal at the end.
	lastTimeout = 5 * time.Second
)

// Options holds what a Keeper needs. All fields are needed, but Facts and Memory.
type Options struct {
	API faults.API
	// Facts returns what the labels and the readiness follow from, and false if no partition is
	// switched on. Then the Node has neither. It is nil if they are not asked for.
	Facts func() (Facts, bool)
	// Memory returns the last poll of the memory of Partition, which the pressure follows from, and
	// false if there is no such partition. It is nil if the pressure is not asked for.
	Memory    func() (evict.Report, bool)
	Partition unitname.PartitionName
	// Stopping reports whether the node is being shut down.
	Stopping func(context.Context) bool
	// Version of the program.
	Version string
	// Boot is the kernel's ID of the boot, empty if it is not known.
	Boot string
	// StateFile is the path of the file in which the last values outlive this program, and not the
	// boot.
	StateFile string
	Log       *slog.Logger
	// Count is called after each attempt to write.
	Count func(written bool)
}

// Keeper keeps labels and conditions of the Node.
type Keeper struct {
	options Options
	nodes   nodes
	look    time.Duration
	tried   atomic.Bool
	pressed atomic.Pointer[time.Time] // the last time of pressure

	mu    sync.Mutex // held while the Node is written
	ended bool       // no write may follow the removal
	state state
	left  bool      // an earlier run has written something that is not asked for any more
	begin time.Time // of Run
	// differs is the time since which the readiness differs from the last value; zero if it does not.
	differs time.Time
	read    time.Time // the last poll of the memory, or the last time when there was none to read
	beat    time.Time // the next heartbeat
	failures
}

// failures has what is known of attempts that have failed.
type failures struct {
	next  time.Time // the next attempt
	retry kubeapi.Retry
	said  faults.Saying
}

// stateVersion is the version of the state file.
const stateVersion = 2

// state has what may be on the Node: the labels by name, and the conditions by type. The value of a
// label, or the status of a condition, is empty if it is not known.
type state struct {
	Version    int                                       `json:"version"`
	Labels     map[string]string                         `json:"labels,omitempty"`
	Conditions map[v1.NodeConditionType]v1.NodeCondition `json:"conditions,omitempty"`
}

func newState() state {
	return state{
		Version: stateVersion, Labels: map[string]string{}, Conditions: map[v1.NodeConditionType]v1.NodeCondition{},
	}
}

func (s state) isEmpty() bool { return len(s.Labels) == 0 && len(s.Conditions) == 0 }

// New returns a Keeper that knows what was written before the last restart. It writes nothing
// before Run.
func New(o Options) *Keeper {
	k := &Keeper{options: o, nodes: ownNode{o.API}, look: look}
	if err := statefile.ReadVersion(o.StateFile, stateVersion, &k.state); err != nil {
		// Without the file the node was booted, or the file is of no use: what the Node has is not known.
		k.state = state{
			Labels:     map[string]string{nodelabel.Version: "", nodelabel.Section: ""},
			Conditions: map[v1.NodeConditionType]v1.NodeCondition{kubeapi.Ready: {}, kubeapi.Pressure: {}},
		}
	}
	before := len(k.state.Labels) + len(k.state.Conditions)
	if o.Facts == nil { // clear removes them, unless others have written them since
		k.state.Labels = nil
		delete(k.state.Conditions, kubeapi.Ready)
	}
	if o.Memory == nil {
		delete(k.state.Conditions, kubeapi.Pressure)
	}
	k.left = k.state.Version > 0 && len(k.state.Labels)+len(k.state.Conditions) < before
	if k.state.Conditions[kubeapi.Pressure].Status == v1.ConditionTrue {
		//guard: a pressure lasts for five minutes over a restart
		k.Pressed() // when it was is not known
	}
	return k
}

// Tried reports whether Run has replaced a value of the former boot, or has tried to.
func (k *Keeper) Tried() bool { return k.tried.Load() }

// Pressed notes that the threshold is crossed now, perhaps for less than a second. It returns at
// once.
func (k *Keeper) Pressed() {
	now := time.Now()
	k.pressed.Store(&now)
}

// Run keeps what is asked for until ctx ends. It leaves it in place then, unless the node is being
// shut down: the conditions are Unknown then. It removes what an earlier run has written and is not
// asked for any more.
func (k *Keeper) Run(ctx context.Context) error {
	var clearing sync.WaitGroup
	defer clearing.Wait()
	if k.options.Facts == nil || k.options.Memory == nil {
		booted := k.state.Version == 0
		clearing.Go(func() { k.clear(ctx, booted) })
	}
	if k.options.Facts == nil && k.options.Memory == nil {
		return nil
	}
	k.begin = time.Now()
	k.read, k.beat = k.begin, k.begin.Add(settle+rand.N(settle))
	for ; ctx.Err() == nil; sleep(ctx, k.look) {
		k.step(ctx, time.Now())
		k.tried.Store(true)
	}
	k.farewell(ctx)
	return ctx.Err()
}

// step compares what is to be on the Node with the last values, and writes what differs.
func (k *Keeper) step(ctx context.Context, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	//guard: nothing is written to the Node after the removal at the end
	if k.ended {
		return
	}
	want := k.wanted(now)
	//guard: nothing is tried each second while the API server is away
	if !k.isDue(want, now) || now.Before(k.next) {
		return
	}
	err := k.put(ctx, want, now)
	if want.isEmpty() {
		k.complain(ctx, err, now, "the labels and conditions of the Node could not be removed, trying again")
	} else {
		k.complain(ctx, err, now, "the labels and conditions of the Node could not be written, trying again")
		k.options.Count(err == nil) // after the line: who waits for it finds the cause in the log
	}
	if err != nil {
		k.next = now.Add(k.retry.After(err))
		return
	}
	k.next, k.retry = time.Time{}, kubeapi.Retry{}
}

// complain logs why an attempt has failed.
func (k *Keeper) complain(ctx context.Context, err error, now time.Time, what string) {
	//guard: a Node that its kubelet registers later is not in the log
	if err == nil || ctx.Err() != nil || errors.Is(err, kubeapi.ErrGone) && now.Sub(k.begin) < patience {
		return
	}
	k.said.Once(err, func() { k.options.Log.Warn(what, "error", err) })
}

// wanted returns what the Node is to have. A condition without a status stays as it is.
func (k *Keeper) wanted(now time.Time) state {
	want := newState()
	if k.options.Facts != nil {
		if facts, on := k.options.Facts(); on {
			for name, value := range map[string]string{
				nodelabel.Version: nodelabel.VersionValue(k.options.Version),
				nodelabel.Section: nodelabel.SectionValue(facts.Section),
			} {
				if value != "" {
					want.Labels[name] = value
				}
			}
			want.Conditions[kubeapi.Ready] = k.settled(k.ofBoot(judge(facts)), now)
		}
	}
	if k.options.Memory != nil {
		if c, ok := k.pressure(now); ok {
			want.Conditions[kubeapi.Pressure] = c
		}
	}
	return want
}

// ofBoot adds the boot to the message of a condition, so that a reader sees whether it is the
// present one.
func (k *Keeper) ofBoot(c v1.NodeCondition) v1.NodeCondition {
	if k.options.Boot != "" {
		c.Message += "; boot " + k.options.Boot
	}
	return c
}

// settled returns the readiness c, or the last value while c has not lasted long enough.
func (k *Keeper) settled(c v1.NodeCondition, now time.Time) v1.NodeCondition {
	last := k.state.Conditions[kubeapi.Ready]
	switch {
	case same(c, last):
		k.differs = time.Time{}
	case k.differs.IsZero():
		k.differs = now
	}
	//guard: a value that is worse lasts for a minute before it is on the Node
	//guard: after a boot the condition is written at once, whatever it is
	if last.Status == "" || c.Status == v1.ConditionTrue || now.Sub(k.differs) >= settle {
		return c
	}
	return last
}

// pressure returns the condition of the memory, and false if the Node is to have none.
func (k *Keeper) pressure(now time.Time) (v1.NodeCondition, bool) {
	report, is := k.options.Memory()
	if !is {
		k.read = now
		return v1.NodeCondition{}, false
	}
	if report.Time.IsZero() && now.Sub(k.read) < stale {
		// The first poll is about to end, or one has failed: the slice is created again.
		last, ok := k.state.Conditions[kubeapi.Pressure]
		return last, ok
	}
	if !report.Time.IsZero() {
		k.read = report.Time
	}
	if isLow(report) || report.NoCandidate {
		k.Pressed()
	}
	var pressed time.Time
	if at := k.pressed.Load(); at != nil {
		pressed = *at
	}
	return k.ofBoot(judgePressure(k.options.Partition, report, pressed, now)), true
}

// same reports whether two conditions differ in their times alone.
func same(a, b v1.NodeCondition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// isDue reports whether want is to be written now.
func (k *Keeper) isDue(want state, now time.Time) bool {
	return !maps.Equal(want.Labels, k.state.Labels) || !maps.EqualFunc(want.Conditions, k.state.Conditions, same) ||
		len(want.Conditions) > 0 && !now.Before(k.beat)
}

// put writes what the Node is to have, and removes what it may have besides.
func (k *Keeper) put(ctx context.Context, want state, now time.Time) error {
	m := kubeapi.Marks{Labels: map[string]*string{}, Conditions: map[v1.NodeConditionType]*v1.NodeCondition{}}
	// A write that is not known could never be taken back.
	before := newState()
	for name, value := range k.state.Labels {
		m.Labels[name], before.Labels[name] = nil, value
	}
	for name, value := range want.Labels {
		m.Labels[name], before.Labels[name] = &value, k.state.Labels[name]
	}
	for kind, c := range k.state.Conditions {
		m.Conditions[kind], before.Conditions[kind] = nil, c
	}
	for kind, c := range want.Conditions {
		last := k.state.Conditions[kind]
		before.Conditions[kind] = last
		//guard: a condition that waits for the first poll of the memory is not written
		if c.Status == "" {
			delete(m.Conditions, kind)
			continue
		}
		c.LastHeartbeatTime, c.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy(), last.LastTransitionTime
		if c.Status != last.Status {
			c.LastTransitionTime = c.LastHeartbeatTime
		}
		want.Conditions[kind], m.Conditions[kind] = c, &c
	}
	//guard: labels that may be on the Node are known before they are written
	k.store(before)
	//guard: a Node that is gone has nothing to remove
	if err := k.nodes.set(ctx, m); err != nil && (!want.isEmpty() || !errors.Is(err, kubeapi.ErrGone)) {
		return err
	}
	//guard: the heartbeats of many nodes are spread after an outage
	k.beat = now.Add(kubeapi.Spread(heartbeat))
	k.store(want)
	return nil
}

// store keeps what is known for the next start.
func (k *Keeper) store(s state) {
	if reflect.DeepEqual(s, k.state) {
		return
	}
	k.state = s
	if err := statefile.Write(k.options.StateFile, s, 0o600); err != nil {
		k.options.Log.Error("the labels and conditions of the Node are not remembered over a restart", "error", err)
	}
}

// farewell makes the conditions Unknown if the node is being shut down. While the node is off, and
// after a boot without a partition, no program writes them.
func (k *Keeper) farewell(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	now := time.Now()
	want := k.wanted(now)
	for kind, c := range k.state.Conditions {
		if _, ok := want.Conditions[kind]; ok && c.Status != "" {
			want.Conditions[kind] = k.ofBoot(condition(kind, v1.ConditionUnknown, reasonStopping, "the node is being shut down"))
		}
	}
	//guard: a plain stop of the monitor leaves the condition as it is
	//guard: a shutdown writes nothing after the removal at the end
	if k.ended || len(k.state.Conditions) == 0 || len(want.Conditions) == 0 || !k.options.Stopping(ctx) {
		return
	}
	k.options.Count(k.put(ctx, want, now) == nil)
}

// Remove removes what is on the Node, because the partitions are switched off and this program
// ends. Nothing is written after that.
func (k *Keeper) Remove(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended = true; k.state.isEmpty() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	if err := k.put(ctx, state{Version: stateVersion}, time.Now()); err != nil && !errors.Is(err, faults.ErrNoClient) {
		k.warnLeft(err)
	}
}

// clear removes what an earlier run of this program has written, and is not asked for any more.
// Labels that another program has written stay. It reads the Node once. After a boot that has time:
// a cluster may boot at once.
func (k *Keeper) clear(ctx context.Context, booted bool) {
	if booted {
		sleep(ctx, settle/2+rand.N(settle))
	}
	var retry kubeapi.Retry
	var said faults.Saying
	for ctx.Err() == nil {
		found, err := k.clearOnce(ctx)
		switch {
		case err == nil && found:
			k.options.Log.Info("labels or conditions of the Node are removed: they are not asked for any more")
			fallthrough
		case err == nil, errors.Is(err, kubeapi.ErrGone):
			k.forget()
			return
		case errors.Is(err, kubeapi.ErrForbidden):
			if found || k.left {
				k.warnLeft(err)
			}
			k.forget()
			return
		}
		said.Once(err, func() {
			k.options.Log.Warn("the labels and conditions of the Node could not be removed, trying again", "error", err)
		})
		sleep(ctx, retry.After(err))
	}
}

// clearOnce is an attempt of clear. It reports whether there is anything to remove.
func (k *Keeper) clearOnce(ctx context.Context) (found bool, err error) {
	m, err := k.nodes.own(ctx)
	if k.options.Facts != nil {
		//guard: a label of another program is not removed with an option, and what is asked for stays
		m.Labels = nil
		delete(m.Conditions, kubeapi.Ready)
	}
	if k.options.Memory != nil {
		delete(m.Conditions, kubeapi.Pressure)
	}
	if err != nil || len(m.Labels) == 0 && len(m.Conditions) == 0 {
		return false, err
	}
	return true, k.nodes.set(ctx, m)
}

// warnLeft logs what is left on the Node.
func (k *Keeper) warnLeft(err error) {
	k.options.Log.Warn("the labels and conditions of the Node could not be removed; remove them with kubectl",
		"labels", kubeapi.Labels(), "conditions", kubeapi.Conditions(), "error", err)
}

// forget removes the state file, if nothing is asked for.
func (k *Keeper) forget() {
	if k.options.Facts != nil || k.options.Memory != nil {
		return
	}
	if err := os.Remove(k.options.StateFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		k.options.Log.Error("the labels and conditions of the Node are not remembered over a restart", "error", err)
	}
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
