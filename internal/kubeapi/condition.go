package kubeapi

import (
	"context"
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// SetNodeCondition writes a condition of a node, as node-problem-detector does: a strategic merge
// patch of nodes/status, which merges conditions by their type. The Node authorizer and the
// admission plugin NodeRestriction allow a kubelet's user to patch the status of its own node, and
// check no types of conditions (admitNode, plugin/pkg/admission/noderestriction, v1.37.0). The
// kubelet keeps conditions that it does not know.
func (c *Client) SetNodeCondition(ctx context.Context, node string, condition v1.NodeCondition) error {
	_, err := c.do(ctx, c.patchNode(node, condition))
	return c.failed("patch nodes/status", "node", node, err)
}

// RemoveNodeCondition removes the condition of a type from a node.
func (c *Client) RemoveNodeCondition(ctx context.Context, node string, kind v1.NodeConditionType) error {
	_, err := c.do(ctx, c.patchNode(node, removedCondition{kind, "delete"}))
	return c.failed("patch nodes/status", "node", node, err)
}

// removedCondition is an element of a strategic merge patch that deletes the element of that type.
type removedCondition struct {
	Type  v1.NodeConditionType `json:"type"`
	Patch string               `json:"$patch"`
}

func (c *Client) patchNode(node string, condition any) *rest.Request {
	data, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{condition}}})
	if err != nil {
		panic(err) // it has texts and times
	}
	return c.rest.Patch(types.StrategicMergePatchType).Resource("nodes").Name(node).SubResource("status").Body(data)
}

// ConditionRights returns the error that prevents writing conditions of a node, nil if there is
// none. Its patch is a dry run of a removal.
func (c *Client) ConditionRights(ctx context.Context, node string, kind v1.NodeConditionType) error {
	_, err := c.do(ctx, c.patchNode(node, removedCondition{kind, "delete"}).Param("dryRun", metav1.DryRunAll))
	return c.failed("patch nodes/status", "node", node, err)
}
