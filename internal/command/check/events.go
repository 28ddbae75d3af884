package check

import (
	"context"
	"errors"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/state"
)

// events asks the API server whether it would accept Events, and labels and the condition of the
// node.
func (c *checks) events(ctx context.Context) []state.Finding {
	o := &c.options
	if o.Eviction.Kubeconfig == node.KubeconfigNone || !o.Events && !o.NodeStatus {
		return saying(
			state.OK, "neither Events nor a condition of the node are written (--%s, --%s, --%s)",
			node.FlagEvents, node.FlagNodeStatus, node.FlagKubeconfig,
		)
	}
	client, path, err := c.apiServer()
	if err != nil {
		return changing(state.Warning, "set a kubeconfig with --"+node.FlagKubeconfig+" if the node belongs to a cluster",
			"Events wait: %v", err)
	}
	if c.unreachable != nil {
		return saying(state.Warning, "%v", c.unreachable)
	}
	name := node.NameInCluster(c.options.Node, client)
	if c.options.Events {
		err = client.EventRights(ctx, name)
	}
	if err == nil && c.options.NodeStatus {
		err = client.NodeRights(ctx, name, true)
	}
	c.unreachable = unreachable(err)
	switch {
	case errors.Is(err, kubeapi.ErrGone):
		return changing(
			state.Warning, "set a kubeconfig of the kubelet with --"+node.FlagKubeconfig,
			"the cluster has no node %q, and Events about it are hard to find: %v", name, err,
		)
	case err != nil:
		return saying(state.Warning, "%v", err)
	}
	return saying(state.OK, "%s accepts them for the node %s, with %s", client.Server(), name, path)
}
