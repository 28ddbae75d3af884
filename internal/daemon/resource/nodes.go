package resource

import (
	"context"

	"nodepartition/internal/daemon/faults"
	"nodepartition/internal/kubeapi"
)

// nodes is the Node of this node at the API server.
type nodes interface {
	// watch calls seen with the Node as it is, and after each change; with nil after its deletion.
	// It returns nil when the API server ends the watch.
	watch(ctx context.Context, seen func(*kubeapi.Node)) error
	// set writes resources, and returns the Node with them. A nil removes one.
	set(ctx context.Context, uid string, cores map[string]*int64) (kubeapi.Node, error)
}

// ownNode is the Node by the kubeconfig of the node.
type ownNode struct{ api faults.API }

func (o ownNode) watch(ctx context.Context, seen func(*kubeapi.Node)) error {
	return o.api.Try(ctx, func(ctx context.Context, client *kubeapi.Client, node string) error {
		return client.WatchNode(ctx, node, seen)
	})
}

func (o ownNode) set(ctx context.Context, uid string, cores map[string]*int64) (n kubeapi.Node, err error) {
	err = o.api.Try(ctx, func(ctx context.Context, client *kubeapi.Client, node string) error {
		n, err = client.SetCores(ctx, node, uid, cores)
		return err
	})
	return n, err
}
