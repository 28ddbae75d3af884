package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/host"
)

// Runtime is a client of the container runtime. It looks for the runtime when it is first needed,
// because k3s starts one long after us.
type Runtime struct {
	// endpoint is the flag's. If it is empty, Runtime uses the kubelet's, or else the first that
	// answers.
	endpoint string
	// kubelets returns the endpoint of the kubelet, empty if it names none. It is not sure while
	// neither the kubelet nor systemd says what its command line is.
	kubelets func(context.Context) (endpoint string, sure bool)
	// path returns the path of a socket of the node.
	path func(string) string
	// answers is the error of a node whose runtime does not answer here, nil otherwise.
	answers   error
	connected func(bool)

	mu     sync.Mutex
	client *cri.Client
	sure   bool // about the client
}

// NewRuntime returns a client of the runtime of n at endpoint. If that is empty, it uses the
// kubelet's runtime, or else the first that answers. It calls connected with whether the runtime
// answers.
func NewRuntime(n host.Node, endpoint string, command ServiceCommand, connected func(bool)) *Runtime {
	return &Runtime{
		endpoint: endpoint, path: n.Path, answers: n.Answers(), connected: connected,
		kubelets: func(ctx context.Context) (string, bool) { return kubeletsEndpoint(ctx, n, command) },
	}
}

// Client returns the client of the runtime, and connects if there is none yet.
func (r *Runtime) Client(ctx context.Context) (*cri.Client, error) {
	r.mu.Lock()
	client := r.client
	r.mu.Unlock()
	if client != nil {
		return client, nil
	}
	client, sure, err := r.open(ctx) // without the lock, because it may hang
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client != nil {
		return r.client, client.Close()
	}
	//guard: a runtime that systemd has not confirmed is a guess
	r.client, r.sure = client, sure
	return client, nil
}

func (r *Runtime) open(ctx context.Context) (client *cri.Client, sure bool, err error) {
	if r.answers != nil {
		return nil, false, fmt.Errorf("container runtime: %w", r.answers)
	}
	endpoint, sure := r.endpoint, true
	if endpoint == "" {
		endpoint, sure = r.kubelets(ctx)
	}
	if endpoint == "" {
		client, err = cri.Find(ctx, r.path)
	} else {
		client, err = cri.New(endpoint)
	}
	return client, sure, err
}

// IsGuess reports whether the present runtime may be another one than the kubelet's, because
// systemd did not answer when it was looked for.
func (r *Runtime) IsGuess() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.client != nil && !r.sure
}

// forget drops client, so that the next call looks for the runtime again.
func (r *Runtime) forget(client *cri.Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client == client {
		_ = client.Close() // calls that still use it fail, and are retried
		r.client = nil
	}
}

// Close ends the connection. Another call opens one again.
func (r *Runtime) Close() {
	r.mu.Lock()
	client := r.client
	r.mu.Unlock()
	if client != nil {
		r.forget(client)
	}
}

// Reconsider drops a runtime that is no longer the kubelet's. It keeps the present one if the
// kubelet names none, or if nothing says which one it is.
func (r *Runtime) Reconsider(ctx context.Context) {
	r.mu.Lock()
	client := r.client
	r.mu.Unlock()
	if client == nil || r.endpoint != "" {
		return
	}
	endpoint, sure := r.kubelets(ctx)
	//guard: only an answer of systemd ends a guess
	if !sure {
		return
	}
	wanted, err := cri.Target(endpoint)
	if present, _ := cri.Target(client.Endpoint()); err == nil && wanted != present {
		r.forget(client)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sure = r.sure || r.client == client
}

func ask[T any](ctx context.Context, r *Runtime, call func(*cri.Client) (T, error)) (T, error) {
	client, err := r.Client(ctx)
	if err != nil {
		r.connected(false)
		var none T
		return none, err
	}
	answer, err := call(client)
	if err != nil {
		r.connected(false)
	}
	switch {
	case errors.Is(err, cri.ErrNotServed):
		r.forget(client)
	case err != nil:
		//guard: a call that fails looks for the runtime again
		r.Reconsider(ctx) // the kubelet's settings may have changed while it did not run
	}
	return answer, err
}

// Sandboxes implements podmove.Runtime. It is the last list that a reconcile asks for: a runtime
// that does not give this one is not connected, whatever else it answers.
func (r *Runtime) Sandboxes(ctx context.Context) ([]cri.Sandbox, error) {
	return ask(ctx, r, func(c *cri.Client) ([]cri.Sandbox, error) {
		sandboxes, err := c.Sandboxes(ctx)
		//guard: a runtime that answers in part is not connected
		if err == nil {
			r.connected(true)
		}
		return sandboxes, err
	})
}

// Containers implements podmove.Runtime.
func (r *Runtime) Containers(ctx context.Context) ([]cri.Container, error) {
	return ask(ctx, r, func(c *cri.Client) ([]cri.Container, error) { return c.Containers(ctx) })
}

// Status implements podmove.Runtime.
func (r *Runtime) Status(ctx context.Context, id string) (cri.Status, error) {
	client, err := r.Client(ctx)
	if err != nil {
		return cri.Status{}, err
	}
	return client.Status(ctx, id)
}

// Stop stops a container, whose processes have grace to end. It does not use ask: a container that
// is already gone does not mean that the runtime is.
func (r *Runtime) Stop(ctx context.Context, id string, grace time.Duration) error {
	client, err := r.Client(ctx)
	if err != nil {
		return err
	}
	return client.Stop(ctx, id, grace)
}

// Version returns the endpoint, the name and the version of the runtime.
func (r *Runtime) Version(ctx context.Context) (endpoint, name, version string, err error) {
	client, err := r.Client(ctx)
	if err != nil {
		return r.endpoint, "", "", err
	}
	name, version, err = client.Version(ctx)
	return client.Endpoint(), name, version, err
}
