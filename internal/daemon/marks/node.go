package marks

import (
	"context"

	"nodepartition/internal/daemon/faults"
	"nodepartition/internal/kubeapi"
)

// nodes is the Node of this node at the API server.
type nodes interface {
	// set writes the labels and the condition.
	set(ctx context.Context, m kubeapi.Marks) error
	// remove removes the condition and the named labels.
	remove(ctx context.Context, names []string) error
	// own returns the names of the labels that this program has written last, and whether there is the
	// condition.
	own(ctx context.Context) (names []string, condition bool, err error)
}

// ownNode is the Node by the kubeconfig of the node.
type ownNode struct{ api faults.API }

func (o ownNode) set(ctx context.Context, m kubeapi.Marks) error {
	return o.api.Try(ctx, func(ctx context.Context, client *kubeapi.Client, node string) error {
		return client.SetMarks(ctx, node, m)
	})
}

func (o ownNode) remove(ctx context.Context, names []string) error {
	return o.api.Try(ctx, func(ctx context.Context, client *kubeapi.Client, node string) error {
		return client.RemoveMarks(ctx, node, names)
	})
}

func (o ownNode) own(ctx context.Context) (names []string, condition bool, err error) {
	err = o.api.Try(ctx, func(ctx context.Context, client *kubeapi.Client, node string) error {
		names, condition, err = client.OwnMarks(ctx, node)
		return err
	})
	return names, condition, err
}
