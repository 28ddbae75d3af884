package check

import (
	"net/http"
	"testing"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/tests/fakeapi"
	"node-partition.io/node-partition/tests/fakenode"
)

// TestCheckNodeStatus: with --node-status alone the right to write labels and condition is asked
// for, and nothing is written. A user without it is told what to grant.
func TestCheckNodeStatus(t *testing.T) {
	t.Parallel()
	n := fakenode.Whole(t)
	n.RunKubelet("--hostname-override=" + fakeapi.Node)
	asked := func(o *node.Options, _ *fakenode.Node) { o.Events, o.NodeStatus = false, true }
	expect(t, n, passes, []string{"accepts them for the node " + fakeapi.Node}, asked)
	if labels := n.Cluster.Labels(); len(labels) > 0 || n.Cluster.Condition(kubeapi.Ready) != nil {
		t.Errorf("%v is on the Node after a check", labels)
	}
	n.Cluster.Answers[fakeapi.PatchNode] = http.StatusForbidden
	expect(t, n, passes, []string{"warning  events: API server", "patch nodes/status node/" + fakeapi.Node, "--node-status and workload types patch of nodes/status"}, asked)
	expect(t, n, passes, []string{"ok       events: neither Events nor a condition of the node are written (--events, --node-status"},
		func(o *node.Options, _ *fakenode.Node) { o.Events = false })
}
