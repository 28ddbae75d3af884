// Package resource keeps the extended resources of workload types on the Node of this node. The
// scheduler places pods by them that request CPU time of a type. The capacity is all CPUs of the
// node, whatever CPUs the partition has: the pods share them by weight, and more may be requested
// than there are.
//
// It watches the Node, and writes when it differs. Without a change it sends no request but the one
// for the watch, which the API server ends every few minutes. Without a type, and without an API
// server, it does nothing.
package resource

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"nodepartition/internal/daemon/faults"
	"nodepartition/internal/host"
	"nodepartition/internal/kubeapi"
	"nodepartition/internal/node"
	"nodepartition/internal/workload"
)

const (
	// look is the interval at which the CPUs of the node are counted. It is also the pause while
	// there is no kubeconfig, and no request.
	look = 10 * time.Second
	// settled is the time after which a watch that ends was a good one.
	settled = time.Minute
	// removeTimeout bounds Remove.
	removeTimeout = 5 * time.Second
	// milli is the number of thousandths of a CPU in a CPU.
	milli = 1000
)

// Options holds what Resources needs. All fields are needed.
type Options struct {
	API  faults.API
	Node host.Node
	Log  *slog.Logger
}

// Resources keeps the resources of workload types on the Node.
type Resources struct {
	node    host.Node
	log     *slog.Logger
	nodes   nodes
	changed chan struct{} // has an element when other types are to be advertised

	mu    sync.Mutex
	types []string

	// acting is held while the Node is compared and written.
	acting sync.Mutex
	known  node.Resources
	pace   pace
	said   faults.Saying // about writes
}

// New returns Resources that know what was written before the last restart.
func New(o Options) *Resources {
	r := &Resources{node: o.Node, log: o.Log, nodes: ownNode{o.API}, changed: make(chan struct{}, 1)}
	var err error
	if r.known, err = node.ReadResources(o.Node); err != nil {
		o.Log.Warn("which resources of workload types are on the Node is not known before the API server answers", "error", err)
	}
	return r
}

// Follow sets the types that are to be advertised. It returns at once.
func (r *Resources) Follow(types []string) {
	r.mu.Lock()
	r.types = slices.Clone(types)
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default: // one is pending
	}
}

func (r *Resources) wanted() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.types
}

// isIdle reports whether there is nothing to advertise, and nothing to remove.
func (r *Resources) isIdle() bool {
	r.acting.Lock()
	defer r.acting.Unlock()
	return len(r.wanted()) == 0 && len(r.known.Written) == 0
}

// Run keeps the resources until ctx ends. It leaves them in place: they are not to come and go with
// a restart of this program.
func (r *Resources) Run(ctx context.Context) error {
	var said faults.Saying
	var retry kubeapi.Retry
	for ctx.Err() == nil {
		if r.isIdle() {
			r.forget()
			select {
			case <-ctx.Done():
			case <-r.changed:
			}
			continue
		}
		begin := time.Now()
		err := r.watch(ctx)
		switch {
		case ctx.Err() != nil, r.isIdle():
			continue
		case errors.Is(err, faults.ErrNoClient):
			sleep(ctx, look)
			continue
		case err != nil:
			said.Once(err, func() {
				r.log.Warn("the resources of workload types are not kept on the Node: it cannot be watched, trying again", "error", err)
			})
		}
		if time.Since(begin) >= settled {
			retry = kubeapi.Retry{}
		}
		sleep(ctx, retry.After(err))
	}
	return ctx.Err()
}

// watch watches the Node and keeps its resources, until the watch ends or there is nothing to do
// any more.
func (r *Resources) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	states, ended := make(chan *kubeapi.Node), make(chan error, 1)
	go func() {
		ended <- r.nodes.watch(ctx, func(n *kubeapi.Node) {
			select {
			case states <- n:
			case <-ctx.Done():
			}
		})
	}()
	defer func() { // it has ended when watch returns
		cancel()
		<-ended
	}()
	tick := time.NewTicker(look)
	defer tick.Stop()
	due := time.NewTimer(0)
	defer due.Stop()
	var present *kubeapi.Node // as far as it is known
	known := false
	for {
		select {
		case err := <-ended:
			ended <- nil
			return err
		case n := <-states:
			//guard: a state of the Node before our write causes no other write
			if n != nil && present != nil && n.UID == present.UID && n.IsOlder(*present) {
				continue // the watch lags behind our own write
			}
			present, known = n, true
		case <-r.changed:
		case <-tick.C:
		case <-due.C:
		}
		if known {
			var again time.Duration
			if present, again = r.keep(ctx, present); again > 0 {
				due.Reset(again)
			}
		}
		if r.isIdle() {
			return nil
		}
	}
}

// keep compares the Node, nil if there is none, with what is to be advertised, and writes what
// differs. It returns the Node as it is then, and the time after which to compare again; 0 for
// none.
func (r *Resources) keep(ctx context.Context, present *kubeapi.Node) (*kubeapi.Node, time.Duration) {
	r.acting.Lock()
	defer r.acting.Unlock()
	c := decide(r.wanted(), r.value(), r.known, present)
	if len(c.cores) == 0 {
		r.store(c.after)
		return present, 0
	}
	if pause := r.pace.wait(time.Now()); pause > 0 {
		return present, pause
	}
	before := r.known
	//guard: a resource is remembered before it is written
	r.store(c.after) // a write that is not known could never be taken back
	n, err := r.nodes.set(ctx, present.UID, c.cores)
	if err == nil {
		present = &n
		r.report(c, before)
		if c = decide(r.wanted(), r.value(), r.known, present); len(c.cores) > 0 {
			//guard: a value that an admission policy takes back is a failure
			err = errNotKept
		}
		r.store(c.after)
		//guard: a resource that was refused is not ours
	} else if isRefused(err) {
		r.store(c.before)
	}
	if ctx.Err() != nil {
		return present, 0
	}
	r.pace.wrote(err, time.Now())
	if err == nil {
		return present, 0
	}
	r.said.Once(err, func() {
		r.log.Warn("the resources of workload types could not be written, trying again", "error", err)
	})
	return present, r.pace.wait(time.Now())
}

// errNotKept means that something between us and the store changes what we write.
var errNotKept = errors.New("the API server has accepted the values and has others: " +
	"does an admission policy or a webhook change nodes/status?")

// isRefused reports whether an error means that nothing was written.
func isRefused(err error) bool {
	for _, kind := range []error{kubeapi.ErrForbidden, kubeapi.ErrCredentials, kubeapi.ErrGone, faults.ErrNoClient} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// value returns the value of each resource, 0 if it is not known. All online CPUs count, whichever
// a process of this program may use.
func (r *Resources) value() int64 {
	cpus, err := node.OnlineCPUs(r.node.Root)
	if err != nil {
		r.said.Once(err, func() {
			r.log.Warn("the resources of workload types are not written: the CPUs of the node are not known", "error", err)
		})
		return 0
	}
	return int64(cpus.Size()) * milli
}

// report logs what was written. before holds what was known when the Node was seen the last time.
func (r *Resources) report(c change, before node.Resources) {
	for _, one := range slices.Sorted(maps.Keys(c.cores)) {
		value, had := c.cores[one], c.before.Seen[one]
		last, ours := before.Written[one]
		switch {
		case value == nil:
			r.log.Info("the resource of a workload type is removed from the Node", "resource", workload.Resource(one))
		case ours && before.Node == c.after.Node && before.Seen[one] == last && had != last:
			r.log.Warn(
				"the resource of a workload type was overwritten on the Node, and is written again",
				"resource", workload.Resource(one), "found", had, "capacity", *value,
			)
		default:
			r.log.Info("the resource of a workload type is on the Node", "resource", workload.Resource(one), "capacity", *value)
		}
	}
}

// store keeps what is known for the next start, and for other programs.
func (r *Resources) store(known node.Resources) {
	if r.known.Equal(known) {
		return
	}
	r.known = known
	if err := node.WriteResources(r.node, known); err != nil {
		r.log.Error("the resources of workload types on the Node are not remembered over a restart", "error", err)
	}
}

// forget removes what was seen of types that are not advertised any more.
func (r *Resources) forget() {
	r.acting.Lock()
	defer r.acting.Unlock()
	r.store(node.Resources{Node: r.known.Node})
}

// Remove removes all resources, because the partitions are switched off and this program ends.
func (r *Resources) Remove(ctx context.Context) {
	r.Follow(nil)
	r.acting.Lock()
	defer r.acting.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if len(r.known.Written) == 0 {
		return
	}
	cores, names := map[string]*int64{}, []string{}
	for _, one := range slices.Sorted(maps.Keys(r.known.Written)) {
		cores[one] = nil
		names = append(names, workload.Resource(one))
	}
	if _, err := r.nodes.set(ctx, r.known.Node, cores); err != nil && !errors.Is(err, kubeapi.ErrGone) {
		r.log.Warn("the resources of workload types could not be removed from the Node; remove them with kubectl",
			"resources", names, "error", err)
		return
	}
	//guard: what was removed from the Node is not ours again
	r.store(node.Resources{Node: r.known.Node}) // the watch may show them once more
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
