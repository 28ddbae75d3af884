package cluster

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
)

const (
	// refresh is the interval at which a namespace in use is read again. It doubles up to
	// maxRefresh while the answers are the same. maxRefresh also bounds the pause after a failed
	// request, such as without the right to get namespaces, which kubelets do not have by default.
	// findDue is the interval at which the namespaces are found that are due.
	refresh    = 30 * time.Second
	maxRefresh = 5 * time.Minute
	findDue    = 5 * time.Second
	// fresh is the age up to which an answer counts for a new pod without another request.
	// inUse is the time for which a namespace is read again after a membership depended on it,
	// unused the time after which it is forgotten. It exceeds node.Remembered.
	fresh  = 2 * refresh
	inUse  = 5 * time.Minute
	unused = 2 * time.Hour
	// kept is the longest time between two writes of the answers.
	kept = node.Remembered / 6
	// sandboxPatience bounds how long the sandbox of a pod waits for the answer about its namespace.
	// The runtime calls for one sandbox after the other, and gives us two seconds. allPatience
	// bounds the sum of the waiting until the API server answers again.
	sandboxPatience = 300 * time.Millisecond
	allPatience     = time.Second
	// maxKnown bounds the namespaces that are remembered.
	maxKnown = 10_000
)

// NamespacesOptions holds what Namespaces needs. All fields are needed.
type NamespacesOptions struct {
	API  API
	Node host.Node
	Log  *slog.Logger
	// Wake is called when the answers have changed. It returns at once.
	Wake func()
}

// Namespaces asks the API server which workload types the annotations of namespaces allow,
// and remembers the answers. It asks only for namespaces whose pods ask for a type that the node
// has. It never lists or watches namespaces: the right to get them is enough.
type Namespaces struct {
	NamespacesOptions

	mu     sync.Mutex
	known  map[string]*known
	waited time.Duration // since the last answer
	asked  chan struct{} // has an element when a namespace is to be asked for

	written time.Time // used by Run alone
}

// NewNamespaces returns Namespaces that remember what was known before the last restart.
func NewNamespaces(o NamespacesOptions) *Namespaces {
	n := &Namespaces{NamespacesOptions: o, known: map[string]*known{}, asked: make(chan struct{}, 1)}
	before, err := node.ReadNamespaces(o.Node)
	if err != nil {
		o.Log.Warn("the workload types that namespaces allow are not known before the API server answers", "error", err)
	}
	for name, of := range before.Known {
		if of.Heard.IsZero() {
			continue
		}
		//guard: an answer of the last start is not forgotten at once
		n.known[name] = &known{Namespace: of, used: time.Now()}
		n.known[name].want(time.Now())
	}
	return n
}

// Allows implements partition.Allows, and remembers that the namespace is in use. A namespace
// without an answer that counts is asked for soon.
func (n *Namespaces) Allows(namespace, workload string) partition.Refusal {
	n.mu.Lock()
	defer n.mu.Unlock()
	of := n.use(namespace)
	if of == nil {
		return partition.NamespaceUnknown
	}
	return of.allows(workload, time.Now())
}

// use returns what is known of a namespace, nil if there are too many. It is called with mu held.
func (n *Namespaces) use(namespace string) *known {
	of := n.known[namespace]
	if of == nil {
		//guard: the remembered namespaces are bounded
		if len(n.known) >= maxKnown {
			return nil
		}
		of = &known{}
		n.known[namespace] = of
	}
	of.used = time.Now()
	if of.awaited(of.used) {
		select {
		case n.asked <- struct{}{}:
		default: // one is pending
		}
	}
	return of
}

// Await waits for an answer about the namespace of a new pod, unless the last one is fresh, for a
// time that the runtime can spare.
func (n *Namespaces) Await(ctx context.Context, namespace string) {
	n.mu.Lock()
	if of := n.known[namespace]; of != nil {
		of.want(time.Now())
	}
	of := n.use(namespace)
	wait := min(sandboxPatience, allPatience-n.waited)
	if of == nil || !of.awaited(of.used) || wait <= 0 {
		n.mu.Unlock()
		return
	}
	if of.done == nil {
		of.done = make(chan struct{})
	}
	done := of.done
	n.mu.Unlock()
	begin := time.Now()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-done:
		return
	}
	n.mu.Lock()
	//guard: sandboxes wait one second together
	n.waited += time.Since(begin)
	n.mu.Unlock()
}

// Run asks for namespaces until ctx ends.
func (n *Namespaces) Run(ctx context.Context) error {
	tick := time.NewTicker(findDue)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-n.asked:
		}
		n.askAll(ctx)
	}
}

// askAll asks for the namespaces that are due, and writes the answers. If the API server does not
// answer for one, it is not asked for the others: each request would take seconds, and the last
// answer about the others would not count until their turn.
func (n *Namespaces) askAll(ctx context.Context) {
	changed := false
	var away error
	due := n.due()
	for _, name := range due {
		answer, err := kubeapi.Namespace{}, away
		//guard: an API server that is away is not asked for each namespace
		if away == nil {
			answer, err = n.ask(ctx, name)
		}
		//guard: a request that the end of the service cuts off is no failure
		if ctx.Err() != nil {
			break
		}
		changed = n.take(name, answer, err, away == nil) || changed
		if !errors.Is(err, kubeapi.ErrForbidden) { // that is an answer, and other namespaces may be allowed
			away = err
		}
	}
	if n.forget() || changed || len(due) > 0 && time.Since(n.written) >= kept {
		n.write()
	}
	if changed {
		n.Wake()
	}
}

// due lists the namespaces that are to be asked for, the one first that was asked for least
// recently: the API server may fail for one of them alone.
func (n *Namespaces) due() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	var list []string
	for name, of := range n.known {
		if of.due(now) {
			list = append(list, name)
		}
	}
	slices.SortFunc(list, func(a, b string) int {
		return cmp.Or(n.known[a].tried.Compare(n.known[b].tried), cmp.Compare(a, b))
	})
	return list
}

// ask asks for one namespace. One that is gone allows nothing: its pods end soon.
func (n *Namespaces) ask(ctx context.Context, name string) (answer kubeapi.Namespace, err error) {
	err = n.API.Try(ctx, func(ctx context.Context, client *kubeapi.Client, _ string) error {
		answer, err = client.Namespace(ctx, name)
		return err
	})
	if errors.Is(err, kubeapi.ErrGone) {
		return kubeapi.Namespace{}, nil
	}
	return answer, err
}

// take takes an answer about a namespace, or the reason why there is none, and reports whether
// another answer follows for its pods. asked means that it was asked for, and not only another one.
func (n *Namespaces) take(name string, answer kubeapi.Namespace, err error, asked bool) (changed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	of, now := n.known[name], time.Now()
	before := of.view()
	switch {
	case err == nil:
		n.waited = 0
		of.answer(answer.UID, partition.AllowedTypes(answer.Annotations), now)
	case of.without(err, asked, now):
		n.Log.Warn(
			"the workload types that a namespace allows are not known; its running pods stay where they are",
			"namespace", name, "error", err,
		)
	}
	return of.view() != before
}

// reason returns the reason of a failed request.
func reason(err error) partition.Refusal {
	switch {
	case errors.Is(err, kubeapi.ErrNoClient):
		return partition.NoAPI
	case errors.Is(err, kubeapi.ErrForbidden):
		return partition.Forbidden
	}
	return partition.NamespaceUnknown
}

// forget removes what nothing depends on, and reports whether there was any.
func (n *Namespaces) forget() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := len(n.known)
	maps.DeleteFunc(n.known, func(_ string, of *known) bool { return time.Since(of.used) >= unused })
	return len(n.known) < before
}

// write stores the answers for the next start, and for other programs.
func (n *Namespaces) write() {
	n.written = time.Now()
	all := node.Namespaces{Known: map[string]node.Namespace{}}
	n.mu.Lock()
	for name, of := range n.known {
		all.Known[name] = of.Namespace
	}
	n.mu.Unlock()
	if err := node.WriteNamespaces(n.Node, all); err != nil {
		n.Log.Error("the workload types that namespaces allow are not kept over a restart", "error", err)
	}
}
