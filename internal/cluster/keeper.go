package cluster

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
)

const (
	// look is the interval between two readings of the facts, and heartbeat the mean interval between
	// two writes without a change, as for the kubelet's conditions (nodeStatusReportFrequency) and in
	// node-problem-detector. repair is the mean with resources: what others overwrite is written again
	// within five minutes.
	look      = time.Second
	heartbeat = 5 * time.Minute
	repair    = heartbeat * 2 / 3
	// settle is the time for which a readiness that is not True has to last before it is written.
	settle = time.Minute
	// patience is the time for which a Node may not exist before that is logged: its kubelet starts
	// after this program.
	patience = 2 * time.Minute
	// lastTimeout bounds the last write, and the removal at the end.
	lastTimeout = 5 * time.Second
)

// KeeperOptions holds what a Keeper needs. All fields are needed, but Facts.
type KeeperOptions struct {
	API API
	// Node has the CPUs that count, and the state file.
	Node host.Node
	// Facts returns what the labels and the readiness follow from, and false if no partition is
	// switched on. Then the Node has neither. It is nil if they are not asked for.
	Facts func() (Facts, bool)
	// Stopping reports whether the node is being shut down.
	Stopping func(context.Context) bool
	// Version of the program.
	Version string
	// Boot is the kernel's ID of the boot, empty if it is not known.
	Boot string
	Log  *slog.Logger
	// Count is called after each attempt to write labels and the condition.
	Count func(written bool)
}

// Keeper keeps what this program has on the Node of this node: the labels and the condition
// SystemPartitionReady, and the extended resources of workload types. Each of the two is asked for
// by itself.
//
// It writes them with one patch when they change, and a heartbeat every five minutes on average.
// The answer is the Node, and shows what others have overwritten. The times of the heartbeats are
// drawn, so that the nodes of a cluster do not come at once after an outage of its API server. It
// does not read the Node besides: without a change a node has one request in five minutes. A
// readiness that is worse has to last for a minute before it is written, because others make taints
// of it: a restart of this program, of the runtime or of a pod changes nothing.
//
// The scheduler places pods by the resources that request CPU time of a type. Their capacity is all
// CPUs of the node, whatever CPUs the partition has: the pods share them by weight, and more may be
// requested than there are.
//
// After a boot the Node still has the last values of the former boot, and is written at once. The
// state file is on a tmpfs, so its lack shows that. With it a restart continues where the run
// before has ended. What is not asked for any more is removed, if this program has written it last.
type Keeper struct {
	options KeeperOptions
	patch   func(context.Context, kubeapi.NodePatch) (kubeapi.Node, error)
	look    time.Duration
	tried   atomic.Bool
	changed chan struct{} // has an element after Follow and KubeletStarted

	following sync.Mutex
	follows   []string // the types that are to be advertised
	again     bool     // the Node may be made again

	mu      sync.Mutex // held while the Node is written
	ended   bool       // no write may follow the removal
	types   []string   // of follows
	written node.Written
	unsaved bool // its file could not be written
	looked  bool // what of the Node is ours is known
	left    bool // an earlier run of this boot has written something that is not asked for any more
	clears  bool // an earlier run may have

	begin time.Time // of Run
	// differs is the time since which the readiness differs from the last value; zero if it does not.
	differs time.Time
	beat    time.Time     // the next heartbeat
	pause   time.Duration // the mean time to the next heartbeat
	marks   attempts      // to write labels and the condition
	cores   attempts      // to write resources
}

// attempts has what is known of attempts that have failed.
type attempts struct {
	next  time.Time
	retry kubeapi.Retry
	said  Saying
}

// may reports whether it is time for the next one.
func (a *attempts) may(now time.Time) bool { return !now.Before(a.next) }

// note notes the result of one.
func (a *attempts) note(err error, now time.Time) {
	if err == nil {
		a.next, a.retry = time.Time{}, kubeapi.Retry{}
		return
	}
	a.next = now.Add(a.retry.After(err))
}

// NewKeeper returns a Keeper that knows what was written before the last restart. It writes nothing
// before Run.
func NewKeeper(o KeeperOptions) *Keeper {
	k := &Keeper{options: o, look: look, pause: heartbeat, changed: make(chan struct{}, 1)}
	k.patch = func(ctx context.Context, p kubeapi.NodePatch) (n kubeapi.Node, err error) {
		err = o.API.Try(ctx, func(ctx context.Context, client *kubeapi.Client, node string) error {
			n, err = client.PatchNode(ctx, node, p)
			return err
		})
		return n, err
	}
	var err error
	if k.written, err = node.ReadWritten(o.Node); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			o.Log.Warn("what this program has written to the Node is not known before the API server answers", "error", err)
		}
		// The node was booted, or the file is of no use.
		k.written = node.Written{
			Labels:     map[string]string{partition.VersionLabel: "", partition.SectionLabel: ""},
			Conditions: map[v1.NodeConditionType]v1.NodeCondition{kubeapi.Ready: {}},
		}
	}
	_, isReady := k.written.Conditions[kubeapi.Ready]
	k.clears = o.Facts == nil && (isReady || len(k.written.Labels) > 0)
	k.left = k.clears && err == nil
	//guard: a label of another program is not removed with an option
	k.looked = !k.clears && k.written.Node != ""
	return k
}

// Tried reports whether Run has replaced a value of the former boot, or has tried to.
func (k *Keeper) Tried() bool { return k.tried.Load() }

// Follow sets the types that are to be advertised. It returns at once.
func (k *Keeper) Follow(types []string) {
	k.following.Lock()
	defer k.following.Unlock()
	k.follows = slices.Clone(types)
	k.wake()
}

// KubeletStarted notes that the kubelet has started. It may be about to make the Node again,
// without the resources. KubeletStarted returns at once.
func (k *Keeper) KubeletStarted() {
	k.following.Lock()
	defer k.following.Unlock()
	k.again = true
	k.wake()
}

func (k *Keeper) wake() {
	select {
	case k.changed <- struct{}{}:
	default: // one is pending
	}
}

// follow takes what Follow and KubeletStarted have set.
func (k *Keeper) follow(now time.Time) {
	k.following.Lock()
	defer k.following.Unlock()
	k.types = k.follows
	if k.again && len(k.types) > 0 {
		k.beat, k.pause = now, look // and again, less and less often: it may take its time
	}
	k.again = false
}

// Run keeps what is asked for until ctx ends. It leaves it in place then, unless the node is being
// shut down: the condition is Unknown then. It removes what an earlier run has written and is not
// asked for any more.
func (k *Keeper) Run(ctx context.Context) error {
	k.start(time.Now())
	for ctx.Err() == nil {
		k.step(ctx, time.Now())
		k.tried.Store(true)
		select {
		case <-ctx.Done():
		case <-k.changed:
		case <-k.next():
		}
	}
	k.farewell(ctx)
	return ctx.Err()
}

// start sets the times of the first writes.
func (k *Keeper) start(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.begin = now
	k.beat = now.Add(settle + rand.N(settle))
	if k.follow(now); !k.isRequested() && !k.left {
		k.marks.next = now.Add(settle/2 + rand.N(settle)) // a cluster may boot at once
	}
}

// isRequested reports whether anything is asked for.
func (k *Keeper) isRequested() bool {
	return k.options.Facts != nil || len(k.types) > 0
}

// next returns a channel that tells when to step again. It is nil if there is nothing to write, and
// nothing to remove. A removal has nothing to look at before its next attempt: a node without a
// kubeconfig makes one each ten seconds, for ever.
func (k *Keeper) next() <-chan time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.isRequested():
		return time.After(k.look)
	case k.looked && k.written.IsEmpty() && !k.unsaved:
		return nil
	}
	return time.After(max(k.look, min(time.Until(k.marks.next), time.Until(k.cores.next))))
}

// step compares what is to be on the Node with the last values, and writes what differs.
func (k *Keeper) step(ctx context.Context, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	//guard: nothing is written to the Node after the removal at the end
	if k.ended {
		return
	}
	k.follow(now)
	want := k.wanted(now)
	//guard: nothing is tried each second while the API server is away
	writes := k.marks.may(now) && k.isDue(want, now)
	if !writes && (!k.cores.may(now) || !k.lacks(now)) {
		return
	}
	n, err := k.put(ctx, want, writes, now)
	if writes {
		k.tellNodeStatus(ctx, want, err, now)
	}
	switch {
	case err == nil && k.cores.may(now):
		err = k.putCores(ctx, n)
	case err == nil:
		return
	case writes:
		//guard: labels and conditions that are refused hold up no resource
		if want.IsEmpty() || errors.Is(err, kubeapi.ErrUnreachable) || errors.Is(err, kubeapi.ErrGone) {
			k.cores.next = k.marks.next // an attempt for them would fail in the same way
		}
		return
	}
	k.cores.note(err, now)
	k.complain(ctx, &k.cores, err, now, coresFailed)
}

// tellNodeStatus notes the result of a write, and says what has failed.
func (k *Keeper) tellNodeStatus(ctx context.Context, want node.Written, err error, now time.Time) {
	what := "the labels and the condition of the Node could not be written, trying again"
	switch {
	case !want.IsEmpty():
	case len(k.types) > 0:
		what = coresFailed
	default:
		what = "the labels and the condition of the Node could not be removed, trying again"
		forbidden := errors.Is(err, kubeapi.ErrForbidden) && !k.isRequested()
		//guard: a Node that is gone has nothing to remove
		if errors.Is(err, kubeapi.ErrGone) || forbidden {
			if forbidden && k.left {
				k.warnLeft(err)
			}
			k.looked, err = true, nil
			k.store(node.Written{})
		}
	}
	k.marks.note(err, now)
	k.complain(ctx, &k.marks, err, now, what)
	if !want.IsEmpty() {
		k.options.Count(err == nil) // after the line: who waits for it finds the cause in the log
	}
}

// complain logs why an attempt has failed.
func (k *Keeper) complain(ctx context.Context, a *attempts, err error, now time.Time, what string) {
	//guard: a Node that its kubelet registers later is not in the log
	if err == nil || ctx.Err() != nil || errors.Is(err, kubeapi.ErrGone) && now.Sub(k.begin) < patience {
		return
	}
	a.said.Warn(k.options.Log, err, what)
}
