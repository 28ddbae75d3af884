package cluster

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeapi"
)

const (
	// look is the interval between two readings of the facts, and heartbeat the mean interval between
	// two writes without a change, as for the kubelet's conditions (nodeStatusReportFrequency) and in
	// node-problem-detector. repair is the mean for resources: what others overwrite is applied again
	// within five minutes.
	look      = time.Second
	heartbeat = 5 * time.Minute
	repair    = heartbeat * 2 / 3
	// settle is the time for which a readiness that is not True has to last before it is written.
	settle = time.Minute
	// lastTimeout bounds the last write, and the removal at the end.
	lastTimeout = 5 * time.Second
	// patience is the time for which a Node may not exist before that is logged: its kubelet starts
	// after this program.
	patience = 2 * time.Minute
)

// KeeperOptions holds what a Keeper needs. All fields are needed, but Facts.
type KeeperOptions struct {
	API API
	// Root has the CPUs that count.
	Root host.Root
	// Facts returns what the labels and the readiness follow from, and false if no partition is
	// switched on. Then the Node has neither. It is nil if they are not asked for.
	Facts func() (Facts, bool)
	// Stopping reports whether the node is being shut down.
	Stopping func(context.Context) bool
	// Version of the program.
	Version string
	// Boot is the kernel's ID of the boot, empty if it is not known. JustBooted means that the node
	// was booted minutes ago.
	Boot       string
	JustBooted bool
	Log        *slog.Logger
	// Count is called after each attempt to write labels and the condition.
	Count func(written bool)
}

// Keeper keeps what this program has on the Node of this node: the labels and the condition
// SystemPartitionReady, and the extended resources of workload types. Each of the two is asked for
// by itself, and is applied by a manager of fields of its own.
//
// It applies them when they change, and with a heartbeat every five minutes on average, which
// repairs what others have changed. The times of the heartbeats are drawn, so that the nodes of a
// cluster do not come at once after an outage of its API server. A readiness that is worse has to
// last for a minute before it is written, because others make taints of it: a restart of this
// program, of the runtime or of a pod changes nothing.
//
// No file says what is ours: the API server knows what a manager has applied, and removes what it
// does not apply any more. So each start applies both, also where nothing is asked for.
type Keeper struct {
	options KeeperOptions
	client  nodeClient
	look    time.Duration
	tried   atomic.Bool
	changed chan struct{} // has an element after Follow and KubeletStarted

	following sync.Mutex
	follows   []string // the types that are to be advertised
	again     bool     // the Node may be made again

	mu     sync.Mutex // held while the Node is written
	ended  bool       // no write may follow the removal
	types  []string   // of follows
	milli  int64      // the thousandths of a CPU that each type has
	begin  time.Time  // of Run
	looked bool       // what the Node had at the start is known
	// differs is the time since which the readiness differs from the last value; zero if it does not.
	differs time.Time
	status  fields // labels and the condition
	cores   fields // resources
}

// nodeClient has the requests about the Node of this node.
type nodeClient interface {
	look(context.Context) (kubeapi.Node, error)
	apply(ctx context.Context, manager string, n kubeapi.Node, force bool) (kubeapi.Node, error)
	remove(ctx context.Context, labels, kinds []string) (kubeapi.Node, error)
}

// NewKeeper returns a Keeper that writes nothing before Run.
func NewKeeper(o KeeperOptions) *Keeper {
	return &Keeper{
		options: o, client: clientOf{o.API}, look: look, changed: make(chan struct{}, 1),
		status: fields{manager: kubeapi.StatusManager, failed: statusFailed, interval: heartbeat, pause: heartbeat},
		cores:  fields{manager: kubeapi.CoresManager, failed: coresFailed, interval: repair, pause: repair},
	}
}

// clientOf is a nodeClient.
type clientOf struct{ API }

func (c clientOf) look(ctx context.Context) (kubeapi.Node, error) {
	return c.node(ctx, func(ctx context.Context, client *kubeapi.Client, node string) (kubeapi.Node, error) {
		return client.LookAtNode(ctx, node)
	})
}

func (c clientOf) apply(ctx context.Context, manager string, want kubeapi.Node, force bool) (kubeapi.Node, error) {
	return c.node(ctx, func(ctx context.Context, client *kubeapi.Client, node string) (kubeapi.Node, error) {
		return client.ApplyNode(ctx, node, manager, want, force)
	})
}

func (c clientOf) remove(ctx context.Context, labels, kinds []string) (kubeapi.Node, error) {
	return c.node(ctx, func(ctx context.Context, client *kubeapi.Client, node string) (kubeapi.Node, error) {
		return client.RemoveFromNode(ctx, node, labels, kinds)
	})
}

func (c clientOf) node(
	ctx context.Context, ask func(context.Context, *kubeapi.Client, string) (kubeapi.Node, error),
) (n kubeapi.Node, err error) {
	err = c.Try(ctx, func(ctx context.Context, client *kubeapi.Client, node string) error {
		n, err = ask(ctx, client, node)
		return err
	})
	return n, err
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
	if !slices.Equal(k.types, k.follows) {
		if k.types = k.follows; k.cores.retry == (kubeapi.Retry{}) {
			k.cores.next = time.Time{} // it waits for no attempt that has failed
		}
	}
	if k.again {
		k.cores.beat, k.cores.pause = now, look // and again, less and less often: it may take its time
	}
	k.again = false
}

// Run keeps what is asked for until ctx ends. It leaves it in place then, unless the node is being
// shut down: the condition is Unknown then.
func (k *Keeper) Run(ctx context.Context) error {
	k.start(time.Now())
	for ctx.Err() == nil {
		k.step(ctx, time.Now())
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
	k.follow(now)
	if !k.options.JustBooted {
		return
	}
	removal := now.Add(settle/2 + rand.N(settle)) // a cluster may boot at once
	if k.options.Facts == nil {
		k.status.next = removal
	}
	if len(k.types) == 0 {
		k.cores.next = removal
	}
}

// next returns a channel that tells when to step again. It is nil if there is nothing to write, and
// nothing to remove.
func (k *Keeper) next() <-chan time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.options.Facts != nil || len(k.types) > 0 {
		return time.After(k.look)
	}
	var waits []time.Duration
	for _, f := range k.both() {
		if !f.isRemoved() {
			waits = append(waits, time.Until(f.next))
		}
	}
	if len(waits) == 0 {
		return nil
	}
	return time.After(max(k.look, slices.Min(waits)))
}

// both returns the two kinds of fields.
func (k *Keeper) both() []*fields { return []*fields{&k.status, &k.cores} }

// step compares what is to be on the Node with the last values, and applies what differs.
func (k *Keeper) step(ctx context.Context, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	//guard: nothing is written to the Node after the removal at the end
	if k.ended {
		return
	}
	k.follow(now)
	want := k.wantedStatus(now)
	if !k.looked && !want.IsEmpty() {
		k.lookFirst(ctx, &k.status, want, now)
		want = k.wantedStatus(now)
	}
	if k.looked || want.IsEmpty() {
		k.keep(ctx, &k.status, want, now)
	}
	k.tried.Store(true)
	//guard: a resource is not lowered by a restart
	if !k.looked && len(k.types) > 0 && !k.options.JustBooted {
		if k.lookFirst(ctx, &k.cores, want, now); !k.looked {
			return
		}
	}
	if want, ok := k.wantedCores(); ok {
		k.keep(ctx, &k.cores, want, now)
	}
}

// lookFirst reads what an earlier run of this boot has applied, before the first attempt for f:
// the readiness, and the resources, which are not lowered. After a boot the Node has the values of
// the former boot, which count as none.
func (k *Keeper) lookFirst(ctx context.Context, f *fields, want kubeapi.Node, now time.Time) {
	if now.Before(f.next) {
		return
	}
	n, err := k.client.look(ctx)
	if isNobody(err) || errors.Is(err, kubeapi.ErrUnreachable) || errors.Is(err, kubeapi.ErrCredentials) {
		if k.complain(ctx, f, err, now); f == &k.status {
			k.options.Count(false)
		}
		return
	}
	k.looked = true // whatever else it is: it may be allowed to apply
	//guard: after a boot the condition is written at once, whatever it is
	if k.isOfBoot(n.Ready) {
		maps.DeleteFunc(n.Labels, func(name, _ string) bool { _, ours := want.Labels[name]; return !ours })
		k.status.last, k.status.known = kubeapi.Node{Labels: n.Labels, Ready: n.Ready}, true
		k.status.beat = now.Add(settle + rand.N(settle))
	}
	for _, one := range k.types {
		if !k.options.JustBooted {
			k.milli = max(k.milli, n.Cores[one])
		}
	}
}

// keep applies fields if they are due.
func (k *Keeper) keep(ctx context.Context, f *fields, want kubeapi.Node, now time.Time) {
	if !f.isDue(want, now) {
		return
	}
	stamp(want.Ready, f.last.Ready, now)
	err := f.send(ctx, k.client, k.options.Log, want)
	switch {
	//guard: a Node that is gone has nothing to remove
	case want.IsEmpty() && errors.Is(err, kubeapi.ErrGone):
		err = nil
	case want.IsEmpty() && f.last.IsEmpty() && errors.Is(err, kubeapi.ErrForbidden):
		k.options.Log.Info("what an earlier run may have written to the Node stays: it may not be removed", "fields of", f.manager, "error", err)
		err = nil
	}
	if err == nil {
		f.applied(k.options.Log, want, now)
	} else {
		f.known = false // it may have been applied, and its answer lost
		k.complain(ctx, f, err, now)
		if want.IsEmpty() && errors.Is(err, kubeapi.ErrNoClient) {
			f.next = now.Add(settle) // most nodes without a kubeconfig never have one
		}
	}
	if f == &k.status && !want.IsEmpty() {
		k.options.Count(err == nil) // after the line: who waits for it finds the cause in the log
	}
}

// isNobody reports whether an error means that there is no Node.
func isNobody(err error) bool {
	return errors.Is(err, kubeapi.ErrGone) || errors.Is(err, kubeapi.ErrNoClient)
}

// complain notes an attempt that has failed, and logs why.
func (k *Keeper) complain(ctx context.Context, f *fields, err error, now time.Time) {
	f.next = now.Add(f.retry.After(err))
	//guard: a Node that its kubelet registers later is not in the log
	if ctx.Err() == nil && (!errors.Is(err, kubeapi.ErrGone) || now.Sub(k.begin) >= patience) {
		f.said.Warn(k.options.Log, err, f.failed)
	}
}

// farewell makes the condition Unknown if the node is being shut down. While the node is off, and
// after a boot without a partition, no program writes it.
func (k *Keeper) farewell(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	now := time.Now()
	want := k.wantedStatus(now)
	//guard: a plain stop of the monitor leaves the condition as it is
	//guard: a shutdown writes nothing after the removal at the end
	if k.ended || want.Ready == nil || !k.options.Stopping(ctx) {
		return
	}
	want.Ready = k.ofBoot(condition(v1.ConditionUnknown, reasonStopping, "the node is being shut down"))
	k.status.next = time.Time{}
	k.keep(ctx, &k.status, want, now)
}

// Remove removes what is on the Node, because the partitions are switched off and this program
// ends. Nothing is written after that.
func (k *Keeper) Remove(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	var removals sync.WaitGroup
	for _, f := range k.both() {
		if f.isRemoved() {
			continue
		}
		removals.Go(func() {
			switch err := f.send(ctx, k.client, k.options.Log, kubeapi.Node{}); {
			case err == nil, isNobody(err):
				f.applied(k.options.Log, kubeapi.Node{}, time.Now())
			default:
				k.options.Log.Warn(
					"the labels, the condition or the resources of the Node could not be removed; remove them with kubectl",
					"fields of", f.manager, "error", err,
				)
			}
		})
	}
	removals.Wait()
}
