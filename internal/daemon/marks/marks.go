// Package marks keeps the labels and the condition SystemPartitionReady of the Node of this node.
//
// It writes them when they change, and a heartbeat every five minutes. It does not read the Node:
// without a change a node has one request in five minutes. A value that is worse has to last for a
// minute before it is written, because others make taints of it: a restart of this program, of the
// runtime or of a pod changes nothing. After a boot the Node still has the last value of the former
// boot, and is written at once. The state file is on a tmpfs, so its lack shows that.
package marks

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"nodepartition/internal/daemon/faults"
	"nodepartition/internal/kubeapi"
	"nodepartition/internal/nodelabel"
	"nodepartition/internal/statefile"
)

const (
	// look is the interval between two readings of the facts, and heartbeat between two writes without
	// a change, as for the kubelet's conditions (nodeStatusReportFrequency) and in
	// node-problem-detector.
	look      = time.Second
	heartbeat = 5 * time.Minute
	// settle is the time for which a value that is not True has to last before it is written.
	settle = time.Minute
	// firstPause and lastPause bound the pauses after failures. A Node that its kubelet registers has
	// the condition soon after that, and a startup taint can go.
	firstPause, lastPause = time.Second, 10 * time.Second
	// patience is the time for which a Node may not exist before that is logged: its kubelet starts
	// after this program.
	patience = 2 * time.Minute
	// lastTimeout bounds the last write, and the removal at the end.
	lastTimeout = 5 * time.Second
)

// Options holds what a Keeper needs. All fields are needed.
type Options struct {
	API faults.API
	// Facts returns what the labels and the condition follow from, and false if no partition is
	// switched on. Then the Node has neither.
	Facts func() (Facts, bool)
	// Stopping reports whether the node is being shut down.
	Stopping func(context.Context) bool
	// Version of the program.
	Version string
	// Boot is the kernel's ID of the boot, empty if it is not known.
	Boot string
	// StateFile is the path of the file in which the last value outlives this program, and not the
	// boot.
	StateFile string
	Log       *slog.Logger
	// Count is called after each attempt to write.
	Count func(written bool)
}

// Keeper keeps the labels and the condition of the Node.
type Keeper struct {
	options Options
	nodes   nodes
	tried   atomic.Bool

	mu    sync.Mutex // held while the Node is written
	ended bool       // no write may follow the removal
	state state
	begin time.Time // of Run
	// differs is the time since which the facts differ from the last value; zero if they do not.
	differs time.Time
	wrote   time.Time // the last write of this run
	next    time.Time // the next attempt after a failure
	pause   wait.DelayFunc
	said    faults.Saying
}

// stateVersion is the version of the state file.
const stateVersion = 1

// state is the content of the state file.
type state struct {
	Version int `json:"version"`
	// There means that labels or the condition may be on the Node.
	There bool `json:"there"`
	// Label and Section are the values of the labels, and Status, Reason and Since of the condition.
	// Status is empty if nothing was written in this boot.
	Label   string             `json:"label,omitempty"`
	Section string             `json:"section,omitempty"`
	Status  v1.ConditionStatus `json:"status,omitempty"`
	Reason  string             `json:"reason,omitempty"`
	Since   time.Time          `json:"since,omitzero"`
}

// New returns a Keeper that knows what was written before the last restart. It writes nothing
// before Run.
func New(o Options) *Keeper {
	k := &Keeper{options: o, nodes: ownNode{o.API}, pause: retries(lastPause)}
	if err := statefile.ReadVersion(o.StateFile, stateVersion, &k.state); err != nil {
		// Without the file the node was booted, or the file is of no use: what the Node has is not known.
		k.state = state{There: true}
	}
	return k
}

// retries returns the pauses after failures. They grow, and the nodes of a cluster whose API server
// was away do not come back at once.
func retries(longest time.Duration) wait.DelayFunc {
	return wait.Backoff{Duration: firstPause, Factor: 2, Jitter: 0.5, Steps: 1 << 30, Cap: longest}.DelayFunc()
}

// Tried reports whether Run has replaced a value of the former boot, or has tried to.
func (k *Keeper) Tried() bool { return k.tried.Load() }

// Run keeps the labels and the condition until ctx ends. It leaves them in place then, unless the
// node is being shut down: the condition is Unknown then.
func (k *Keeper) Run(ctx context.Context) error {
	k.begin = time.Now()
	for ; ctx.Err() == nil; sleep(ctx, look) {
		k.step(ctx, time.Now())
		k.tried.Store(true)
	}
	k.farewell(ctx)
	return ctx.Err()
}

// step compares the facts with the last value, and writes what differs.
func (k *Keeper) step(ctx context.Context, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		return
	}
	facts, on := k.options.Facts()
	var err error
	switch {
	case !on:
		if !k.state.There || now.Before(k.next) {
			return
		}
		err = k.remove(ctx)
		k.complain(ctx, err, now, "the labels and the condition of the Node could not be removed, trying again")
	default:
		m := k.marks(facts, judge(facts))
		if !k.isDue(m, now) || now.Before(k.next) {
			return
		}
		err = k.put(ctx, m, now)
		k.complain(ctx, err, now, "the labels and the condition of the Node could not be written, trying again")
		k.options.Count(err == nil) // after the line: who waits for it finds the cause in the log
	}
	if err != nil {
		k.next = now.Add(k.pause())
		return
	}
	k.next, k.pause = time.Time{}, retries(lastPause)
}

// complain logs why an attempt has failed.
func (k *Keeper) complain(ctx context.Context, err error, now time.Time, what string) {
	if err == nil || ctx.Err() != nil || errors.Is(err, kubeapi.ErrGone) && now.Sub(k.begin) < patience {
		return
	}
	k.said.Once(err, func() { k.options.Log.Warn(what, "condition", kubeapi.Ready, "error", err) })
}

// marks returns what the Node is to have. The message ends with the boot, so that a reader sees
// whether it is the present one.
func (k *Keeper) marks(f Facts, c v1.NodeCondition) kubeapi.Marks {
	if k.options.Boot != "" {
		c.Message += "; boot " + k.options.Boot
	}
	return kubeapi.Marks{
		Version: nodelabel.VersionValue(k.options.Version), Section: nodelabel.SectionValue(f.Section), Condition: c,
	}
}

// isDue reports whether m is to be written now.
func (k *Keeper) isDue(m kubeapi.Marks, now time.Time) bool {
	same := m.Condition.Status == k.state.Status && m.Condition.Reason == k.state.Reason
	switch {
	case same:
		k.differs = time.Time{}
	case k.differs.IsZero():
		k.differs = now
	}
	switch {
	case k.state.Status == "": // the Node may have the value of a former boot
		return true
	case same:
		return m.Version != k.state.Label || m.Section != k.state.Section || now.Sub(k.wrote) >= heartbeat
	}
	return m.Condition.Status == v1.ConditionTrue || now.Sub(k.differs) >= settle
}

// put writes m.
func (k *Keeper) put(ctx context.Context, m kubeapi.Marks, now time.Time) error {
	after := state{
		There: true, Label: m.Version, Section: m.Section,
		Status: m.Condition.Status, Reason: m.Condition.Reason, Since: k.state.Since,
	}
	if k.state.Status != after.Status {
		after.Since = now
	}
	m.Condition.LastHeartbeatTime, m.Condition.LastTransitionTime = metav1.NewTime(now), metav1.NewTime(after.Since)
	before := k.state
	before.There = true
	k.store(before) // a write that is not known could never be taken back
	if err := k.nodes.set(ctx, m); err != nil {
		return err
	}
	k.wrote = now
	k.store(after)
	return nil
}

// remove removes all labels and the condition.
func (k *Keeper) remove(ctx context.Context) error {
	err := k.nodes.remove(ctx, kubeapi.Labels())
	if err != nil && !errors.Is(err, kubeapi.ErrGone) {
		return err
	}
	k.store(state{})
	return nil
}

// store keeps what is known for the next start.
func (k *Keeper) store(s state) {
	if s.Version = stateVersion; s == k.state {
		return
	}
	k.state = s
	if err := statefile.Write(k.options.StateFile, s, 0o600); err != nil {
		k.options.Log.Error("the labels and the condition of the Node are not remembered over a restart", "error", err)
	}
}

// farewell makes the condition Unknown if the node is being shut down. While the node is off, and
// after a boot without a partition, no program writes it.
func (k *Keeper) farewell(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	facts, on := k.options.Facts()
	if k.ended || !on || k.state.Status == "" || !k.options.Stopping(ctx) {
		return
	}
	stopping := condition(v1.ConditionUnknown, reasonStopping, "the node is being shut down")
	k.options.Count(k.put(ctx, k.marks(facts, stopping), time.Now()) == nil)
}

// Remove removes the labels and the condition, because the partitions are switched off and this
// program ends. Nothing is written after that.
func (k *Keeper) Remove(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended = true; !k.state.There {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	if err := k.remove(ctx); err != nil && !errors.Is(err, faults.ErrNoClient) {
		k.warnLeft(err)
	}
}

// maxClearPause bounds the pauses of Clear.
const maxClearPause = 5 * time.Minute

// Clear removes what an earlier run of this program has written, because nothing is to be written
// any more. Labels that another program has written stay. It reads the Node once. Without a state
// file of an earlier run that has time: the node was booted since, and a cluster may boot at once.
func (k *Keeper) Clear(ctx context.Context) error {
	if k.state.Version == 0 {
		sleep(ctx, settle/2+rand.N(settle))
	}
	pause := retries(maxClearPause)
	for ; ctx.Err() == nil; sleep(ctx, pause()) {
		found, err := k.clear(ctx)
		switch {
		case err == nil && found:
			k.options.Log.Info("the labels and the condition of the Node are removed: they are not asked for any more")
			fallthrough
		case err == nil, errors.Is(err, kubeapi.ErrGone):
			k.forget()
			return nil
		case errors.Is(err, kubeapi.ErrForbidden):
			if found || k.state.Version != 0 { // else nothing was written
				k.warnLeft(err)
			}
			k.forget()
			return nil
		case ctx.Err() == nil:
			k.complain(ctx, err, time.Now(), "the labels and the condition of the Node could not be removed, trying again")
		}
	}
	return ctx.Err()
}

// warnLeft logs what is left on the Node.
func (k *Keeper) warnLeft(err error) {
	k.options.Log.Warn("the labels and the condition of the Node could not be removed; remove them with kubectl",
		"labels", kubeapi.Labels(), "condition", kubeapi.Ready, "error", err)
}

// clear removes what is ours. It reports whether anything was found.
func (k *Keeper) clear(ctx context.Context) (found bool, err error) {
	names, condition, err := k.nodes.own(ctx)
	if err != nil || len(names) == 0 && !condition {
		return false, err
	}
	return true, k.nodes.remove(ctx, names)
}

// forget removes the state file.
func (k *Keeper) forget() {
	if err := os.Remove(k.options.StateFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		k.options.Log.Error("the labels and the condition of the Node are not remembered over a restart", "error", err)
	}
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
