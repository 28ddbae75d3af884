package main

import (
	"context"
	"sync"
	"time"

	"nodepartition/internal/cri"
)

// runtimeClient is the container runtime, looked for when it is first needed: with k3s it comes long after us.
type runtimeClient struct {
	endpoint  string // empty: the default one that is there
	connected func(bool)

	mu     sync.Mutex
	client *cri.Client
}

func (r *runtimeClient) get() (*cri.Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client != nil {
		return r.client, nil
	}
	endpoint := r.endpoint
	if endpoint == "" {
		found, err := cri.Find()
		if err != nil {
			return nil, err
		}
		endpoint = found
	}
	client, err := cri.New(endpoint)
	if err != nil {
		return nil, err
	}
	r.client = client
	return client, nil
}

func ask[T any](r *runtimeClient, call func(*cri.Client) (T, error)) (T, error) {
	client, err := r.get()
	if err != nil {
		r.connected(false)
		var none T
		return none, err
	}
	answer, err := call(client)
	r.connected(err == nil)
	return answer, err
}

func (r *runtimeClient) Sandboxes(ctx context.Context) ([]cri.Sandbox, error) {
	return ask(r, func(c *cri.Client) ([]cri.Sandbox, error) { return c.Sandboxes(ctx) })
}

func (r *runtimeClient) Containers(ctx context.Context) ([]cri.Container, error) {
	return ask(r, func(c *cri.Client) ([]cri.Container, error) { return c.Containers(ctx) })
}

func (r *runtimeClient) Resources(ctx context.Context, id string) (cri.Resources, error) {
	client, err := r.get()
	if err != nil {
		return cri.Resources{}, err
	}
	return client.Resources(ctx, id)
}

func (r *runtimeClient) Process(ctx context.Context, id string) (pid int, running bool, err error) {
	client, err := r.get()
	if err != nil {
		return 0, false, err
	}
	return client.Process(ctx, id)
}

// stop is not asked for through ask: that a container is gone already does not mean that the runtime is.
func (r *runtimeClient) stop(ctx context.Context, id string, grace time.Duration) error {
	client, err := r.get()
	if err != nil {
		return err
	}
	return client.Stop(ctx, id, grace)
}

func (r *runtimeClient) version(ctx context.Context) (endpoint, name, version string, err error) {
	client, err := r.get()
	if err != nil {
		return r.endpoint, "", "", err
	}
	name, version, err = client.Version(ctx)
	return client.Endpoint(), name, version, err
}
