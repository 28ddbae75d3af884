// Package namespaces asks the API server which workload types the annotations of namespaces allow,
// and remembers the answers. It asks only for namespaces whose pods ask for a type that the node
// has. It never lists or watches namespaces: the right to get them is enough.
package namespaces

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
	"nodepartition/internal/membership"
	"nodepartition/internal/node"
	"nodepartition/internal/workload"
)

const (
	// refresh is the interval at which the namespaces in use are read again, and retry the pause after
	// a failed request.
	refresh = 30 * time.Second
	retry   = 5 * time.Second
	// unused is the time after which a namespace that no pod's membership depends on is forgotten.
	unused = time.Hour
	// patience bounds how long the sandbox of a pod waits for the answer about its namespace. The
	// runtime calls for one sandbox after the other, and gives us two seconds. allPatience bounds the
	// sum of the waiting until the API server answers again.
	patience    = 300 * time.Millisecond
	allPatience = time.Second
	// maxKnown bounds the namespaces that are remembered.
	maxKnown = 10_000
)

// Options holds what Namespaces needs. All fields are needed.
type Options struct {
	API  faults.API
	Node host.Node
	Log  *slog.Logger
	// Wake is called when the answers have changed. It returns at once.
	Wake func()
}

// Namespaces remembers which workload types namespaces allow.
type Namespaces struct {
	Options

	mu     sync.Mutex
	known  map[string]*known
	why    membership.Refusal // of a namespace without an answer
	said   membership.Refusal
	waited time.Duration // since the last answer
	asked  chan struct{} // has an element when a namespace is to be asked for
}

// known holds the last answer about a namespace.
type known struct {
	node.Namespace
	answered bool
	// shrunk means that the last answer allowed less than Types, which stay until the next one agrees:
	// moving pods restarts them, and an annotation may be about to come back.
	shrunk bool
	used   time.Time     // when a membership last depended on it
	at     time.Time     // of the last request
	done   chan struct{} // closed at the first answer; nil after it
}

// New returns Namespaces that remember what was known before the last restart.
func New(o Options) *Namespaces {
	n := &Namespaces{
		Options: o, known: map[string]*known{}, why: membership.NamespaceUnknown, asked: make(chan struct{}, 1),
	}
	before, err := node.ReadNamespaces(o.Node)
	if err != nil {
		o.Log.Warn("the workload types that namespaces allow are not known before the API server answers", "error", err)
	}
	for name, of := range before.Known {
		n.known[name] = &known{Namespace: of, answered: true, used: time.Now()}
	}
	return n
}

// Allows implements membership.Allows, and remembers that the namespace is in use. A namespace that
// is not known is asked for soon.
func (n *Namespaces) Allows(namespace, workload string) membership.Refusal {
	n.mu.Lock()
	defer n.mu.Unlock()
	of := n.use(namespace)
	switch {
	case of == nil || !of.answered:
		return n.why
	case !slices.Contains(of.Types, workload):
		return membership.NotAllowed
	}
	return ""
}

// use returns what is known of a namespace. It is called with mu held.
func (n *Namespaces) use(namespace string) *known {
	of := n.known[namespace]
	if of == nil {
		if len(n.known) >= maxKnown {
			return nil
		}
		of = &known{done: make(chan struct{})}
		n.known[namespace] = of
	}
	of.used = time.Now()
	if !of.answered && time.Since(of.at) >= retry {
		select {
		case n.asked <- struct{}{}:
		default: // one is pending
		}
	}
	return of
}

// Await waits for the first answer about a namespace, for a time that the runtime can spare.
func (n *Namespaces) Await(ctx context.Context, namespace string) {
	n.mu.Lock()
	of := n.use(namespace)
	wait := min(patience, allPatience-n.waited)
	if of == nil || of.answered || wait <= 0 {
		n.mu.Unlock()
		return
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
	n.waited += time.Since(begin)
	n.mu.Unlock()
}

// Run asks for namespaces until ctx ends.
func (n *Namespaces) Run(ctx context.Context) error {
	tick := time.NewTicker(retry)
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

// askAll asks for the namespaces that are due, and writes what has changed.
func (n *Namespaces) askAll(ctx context.Context) {
	changed, before := false, n.reason()
	for _, name := range n.due() {
		if n.ask(ctx, name) {
			changed = true
		}
	}
	if n.forget() || changed || n.reason() != before {
		n.write()
	}
	if changed {
		n.Wake()
	}
}

// reason returns the reason why the API server has not answered.
func (n *Namespaces) reason() membership.Refusal {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.why
}

// due lists the namespaces in use without an answer, or with an old one.
func (n *Namespaces) due() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	var list []string
	for name, of := range n.known {
		since := now.Sub(of.at)
		if !of.answered && since >= retry || of.answered && since >= refresh && now.Sub(of.used) < 2*refresh {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// ask asks for one namespace, and reports whether what is known of it has changed.
func (n *Namespaces) ask(ctx context.Context, name string) bool {
	var answer kubeapi.Namespace
	err := n.API.Try(ctx, func(ctx context.Context, client *kubeapi.Client, _ string) error {
		var err error
		answer, err = client.Namespace(ctx, name)
		return err
	})
	if ctx.Err() != nil {
		return false
	}
	if errors.Is(err, kubeapi.ErrGone) {
		answer, err = kubeapi.Namespace{}, nil // its pods end soon
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	of := n.known[name]
	if of == nil {
		return false
	}
	of.at = time.Now()
	if err != nil {
		n.refused(name, err)
		return false
	}
	n.why, n.said, n.waited = membership.NamespaceUnknown, "", 0
	return of.answer(node.Namespace{UID: answer.UID, Types: workload.Allowed(answer.Annotations)})
}

// answer takes an answer, and reports whether it changes anything.
func (k *known) answer(said node.Namespace) bool {
	fewer := slices.ContainsFunc(k.Types, func(one string) bool { return !slices.Contains(said.Types, one) })
	switch {
	case !k.answered:
		k.answered = true
		close(k.done)
	case k.UID == said.UID && fewer && !k.shrunk:
		k.shrunk = true
		return false
	case k.UID == said.UID && slices.Equal(k.Types, said.Types):
		k.shrunk = false
		return false
	}
	k.Namespace, k.shrunk = said, false
	return true
}

// refused remembers the error of a request, and logs it once. It is called with mu held.
func (n *Namespaces) refused(name string, err error) {
	switch {
	case errors.Is(err, faults.ErrNoClient):
		n.why = membership.NoAPI
	case errors.Is(err, kubeapi.ErrForbidden):
		n.why = membership.Forbidden
	default:
		n.why = membership.NamespaceUnknown
	}
	if n.said == n.why {
		return
	}
	n.said = n.why
	n.Log.Warn(
		"the workload types that a namespace allows are not known; its pods stay where they belong without them",
		"namespace", name, "error", err,
	)
}

// forget removes what nothing depends on, and reports whether there was any.
func (n *Namespaces) forget() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := len(n.known)
	maps.DeleteFunc(n.known, func(_ string, of *known) bool { return time.Since(of.used) >= unused })
	return len(n.known) < before
}

// write stores the answers for the next start.
func (n *Namespaces) write() {
	n.mu.Lock()
	all := node.Namespaces{Known: map[string]node.Namespace{}, Why: n.why}
	for name, of := range n.known {
		if of.answered {
			all.Known[name] = of.Namespace
		}
	}
	n.mu.Unlock()
	if err := node.WriteNamespaces(n.Node, all); err != nil {
		n.Log.Error("the workload types that namespaces allow are not kept over a restart", "error", err)
	}
}
