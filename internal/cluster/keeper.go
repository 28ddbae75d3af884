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

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
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

// KeeperOptions holds what a Keeper needs. All fields are needed, but Facts and Memory.
type KeeperOptions struct {
	API API
	// Node has the CPUs that count, and the state file.
	Node host.Node
	// Facts returns what the labels and the readiness follow from, and false if no partition is
	// switched on. Then the Node has neither. It is nil if they are not asked for.
	Facts func() (Facts, bool)
	// Memory returns the last poll of the memory of Partition, which the pressure follows from, and
	// false if there is no such partition. It is nil if the pressure is not asked for.
	Memory    func() (evict.Report, bool)
	Partition partition.Name
	// Stopping reports whether the node is being shut down.
	Stopping func(context.Context) bool
	// Version of the program.
	Version string
	// Boot is the kernel's ID of the boot, empty if it is not known.
	Boot string
	Log  *slog.Logger
	// Count is called after each attempt to write labels and conditions.
	Count func(written bool)
}

// Keeper keeps what this program has on the Node of this node: the labels and the condition
// SystemPartitionReady, the condition SystemPartitionPressure, and the extended resources of
// workload types. Each of the three is asked for by itself.
//
// It writes them with one patch when they change, and a heartbeat every five minutes on average.
// The answer is the Node, and shows what others have overwritten. The times of the heartbeats are
// drawn, so that the nodes of a cluster do not come at once after an outage of its API server. It
// reads the Node at its start alone: without a change a node has one request in five minutes. A
// readiness that is worse has to last for a minute before it is written, because others make taints
// of it: a restart of this program, of the runtime or of a pod changes nothing.
//
// The scheduler places pods by the resources that request CPU time of a type. Their capacity is all
// CPUs of the node, whatever CPUs the partition has: the pods share them by weight, and more may be
// requested than there are.
//
// What is ours on the Node, the Node itself says: a start reads it and continues from there. After
// a boot its conditions are those of the former boot, and are written at once. What is not asked
// for any more is removed, if this program has written it last. The state file has the resources
// alone.
type Keeper struct {
	options KeeperOptions
	patch   func(context.Context, kubeapi.NodePatch) (kubeapi.Node, error)
	look    time.Duration
	tried   atomic.Bool
	pressed atomic.Pointer[time.Time] // the last time of pressure
	changed chan struct{}             // has an element after Follow and KubeletStarted

	following sync.Mutex
	follows   []string // the types that are to be advertised
	again     bool     // the Node may be made again

	mu      sync.Mutex // held while the Node is written
	ended   bool       // no write may follow the removal
	types   []string   // of follows
	written node.Written
	// seen is what the Node has of ours by the last answer; nil before the first, while there is no
	// Node, and after a request without an answer.
	seen *kubeapi.Node

	begin time.Time // of Run
	// differed is the time since which the readiness differs from the last value; zero if it does not.
	differed time.Time
	polled   time.Time     // the last poll of the memory, or the last time when there was none
	beat     time.Time     // the next heartbeat
	pause    time.Duration // the mean time to the next heartbeat
	all      attempts      // of any request
	marks    attempts      // to write labels and conditions
	cores    attempts      // to write resources
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

// NewKeeper returns a Keeper that knows which resources were written before the last restart. It
// writes nothing before Run.
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
	if k.written, err = node.ReadWritten(o.Node); err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.Log.Warn("what this program has written to the Node is not known before the API server answers", "error", err)
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
	if !k.isRequested() && len(k.follows) > 0 {
		k.all.next = now // what nothing asked for could wait
	}
	k.types = k.follows
	if k.again && len(k.types) > 0 {
		k.beat, k.pause = now, look // and again, less and less often: it may take its time
	}
	k.again = false
}

// Run keeps what is asked for until ctx ends. It leaves it in place then, unless the node is being
// shut down: the conditions are Unknown then. It removes what an earlier run has written and is not
// asked for any more.
func (k *Keeper) Run(ctx context.Context) error {
	k.start(time.Now())
	for ctx.Err() == nil {
		k.step(ctx, time.Now())
		k.tried.Store(true)
		next := time.After(k.look)
		if k.isIdle() {
			next = nil
		}
		select {
		case <-ctx.Done():
		case <-k.changed:
		case <-next:
		}
	}
	k.farewell(ctx)
	return ctx.Err()
}

// start sets the times of the first requests.
func (k *Keeper) start(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.begin, k.polled = now, now
	if k.follow(now); !k.isRequested() && k.written.Node == "" {
		k.all.next = now.Add(settle/2 + rand.N(settle)) // a cluster may boot at once
	}
}

// isRequested reports whether anything is asked for.
func (k *Keeper) isRequested() bool {
	return k.options.Facts != nil || k.options.Memory != nil || len(k.types) > 0
}

// isIdle reports whether there is nothing to write, and nothing to remove.
func (k *Keeper) isIdle() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.isRequested() && k.seen != nil && !k.differs(kubeapi.Node{}) && len(k.lacking()) == 0
}

// marksFailed is logged when labels and conditions could not be written.
const marksFailed = "the labels and conditions of the Node could not be written, trying again"

// step compares what is to be on the Node with what it has, and writes what differs.
func (k *Keeper) step(ctx context.Context, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	//guard: nothing is written to the Node after the removal at the end
	if k.ended {
		return
	}
	k.follow(now)
	//guard: nothing is tried each second while the API server is away
	if !k.all.may(now) || k.seen == nil && !k.read(ctx, now) {
		return
	}
	want := k.wanted(now)
	marks := len(want.Labels)+len(want.Conditions) > 0
	beats := (marks || len(k.types) > 0) && !now.Before(k.beat)
	switch {
	case k.marks.may(now) && (k.differs(want) || marks && beats):
		what := marksFailed
		if !marks {
			what = "the labels and conditions of the Node could not be removed, trying again"
		}
		err := k.put(ctx, want, now)
		k.note(ctx, &k.marks, err, now, what)
		if marks {
			k.options.Count(err == nil) // after the line: who waits for it finds the cause in the log
		}
	case beats:
		//guard: resources are looked at while labels and conditions are refused
		k.note(ctx, &k.all, k.send(ctx, kubeapi.NodePatch{}, now), now, coresFailed)
	}
	//guard: labels and conditions that are refused hold up no resource
	if k.all.may(now) && k.cores.may(now) {
		k.note(ctx, &k.cores, k.putCores(ctx, now), now, coresFailed)
	}
}

// read sees what the Node has. It reports false if that has failed.
func (k *Keeper) read(ctx context.Context, now time.Time) bool {
	err := k.send(ctx, kubeapi.NodePatch{}, now)
	//guard: a Node that is gone has nothing to remove
	if !k.isRequested() && (errors.Is(err, kubeapi.ErrGone) || errors.Is(err, kubeapi.ErrForbidden)) {
		k.seen, err = &kubeapi.Node{}, nil
	}
	marks := k.options.Facts != nil || k.options.Memory != nil
	what := coresFailed
	if marks {
		what = marksFailed
	}
	k.note(ctx, &k.all, err, now, what)
	if err != nil && marks {
		k.options.Count(false)
	}
	return err == nil
}

// note notes the result of an attempt, and logs why it has failed.
func (k *Keeper) note(ctx context.Context, a *attempts, err error, now time.Time, what string) {
	for _, kind := range []error{kubeapi.ErrUnreachable, kubeapi.ErrGone, kubeapi.ErrCredentials, kubeapi.ErrNoClient} {
		if errors.Is(err, kind) {
			a = &k.all // any request would fail in the same way
		}
	}
	if err == nil {
		k.all.note(nil, now)
	}
	a.note(err, now)
	//guard: a Node that its kubelet registers later is not in the log
	if err == nil || ctx.Err() != nil || errors.Is(err, kubeapi.ErrGone) && now.Sub(k.begin) < patience {
		return
	}
	a.said.Warn(k.options.Log, err, what)
}
