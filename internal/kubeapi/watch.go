package kubeapi

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/watch"
)

// WatchNode calls seen with a node as the API server has it: at first, if the node exists, and
// after each change. It calls seen with nil when the node is deleted. It returns nil when the API
// server ends the watch, which it does after some minutes. The node may have changed once more
// then.
//
// A kubelet's user may watch its own node, if the selector names that alone
// (AuthorizeNodeWithSelectors, plugin/pkg/auth/authorizer/node, v1.37.0). The first state may be
// older than the last write: resourceVersion 0 reads the API server's cache. Later ones follow.
func (c *Client) WatchNode(ctx context.Context, node string, seen func(*Node)) error {
	request := c.rest.Get().Resource("nodes").
		Param("fieldSelector", "metadata.name="+node).
		Param("resourceVersion", "0")
	err := c.follow(ctx, request, func(event watchEvent) error {
		switch event.Type {
		case watch.Added, watch.Modified:
			var object nodeObject
			if err := json.Unmarshal(event.Object, &object); err != nil {
				return err
			}
			node := object.node()
			seen(&node)
		case watch.Deleted:
			seen(nil)
		}
		return nil
	})
	if fromAnother(err) {
		return c.about("watch nodes", "node", node, fmt.Errorf("%w: %w", ErrUnreachable, err))
	}
	return c.failed("watch nodes", "node", node, err)
}
