package marks

import (
	"context"

	"nodepartition/internal/daemon/faults"
	"nodepartition/internal/kubeapi"
)

// nodes is the Node of this node at the API server.
type nodes interface {
	// set writes labels and conditions, or removes them.
	set(ctx context.Context, m kubeapi.Marks) error
	// own returns what removes the labels that this program has written last, and our conditions.
	own(ctx context.Context) (kubeapi.Marks, error)
}

// ownNode is the Node by the kubeconfig of the node.
type ownNode struct{ api faults.API }

func (o ownNode) set(ctx context.Context, m kubeapi.Marks) error {
	return o.api.Try(ctx, func(ctx context.Context, client *kubeapi.Client, node string) error {
		return client.SetMarks(ctx, node, m)
	})
}

func (o ownNode) own(ctx context.Context) (m kubeapi.Marks, err error) {
	err = o.api.Try(ctx, func(ctx context.Context, client *kubeapi.Client, node string) error {
		m, err = client.OwnMarks(ctx, node)
		return err
	})
	return m, err
}
