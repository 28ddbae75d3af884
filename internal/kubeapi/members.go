package kubeapi

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// NotReady returns why a node is not Ready, empty if it is. A kubelet's user may get its own node.
func (c *Client) NotReady(ctx context.Context, node string) (string, error) {
	object, err := c.getNode(ctx, node)
	if err != nil {
		return "", err
	}
	for _, condition := range object.Status.Conditions {
		switch {
		case condition.Type != v1.NodeReady:
		case condition.Status == v1.ConditionTrue:
			return "", nil
		default:
			return fmt.Sprintf("%s: %s", condition.Reason, condition.Message), nil
		}
	}
	return "it has no condition Ready", nil
}

// PodState is a pod of a node, as the API server has it.
type PodState struct {
	Pod
	// Ready is the pod's condition of that name. Ended pods succeeded or failed, or are being
	// deleted.
	Ready, Ended bool
	// Failed pods have the phase of that name, as after an eviction, and are not being deleted.
	Failed bool
}

// PodsOn returns the pods of a node. The Node authorizer allows a kubelet's user to list pods by
// the name of its node (AuthorizeNodeWithSelectors, on since 1.32).
func (c *Client) PodsOn(ctx context.Context, node string) ([]PodState, error) {
	var got v1.PodList
	request := c.rest.Get().Resource("pods").Param("fieldSelector", "spec.nodeName="+node)
	if err := c.read(ctx, "list pods of "+node, "list pods", request, &got); err != nil {
		return nil, err
	}
	pods := make([]PodState, 0, len(got.Items))
	for i := range got.Items {
		p := &got.Items[i]
		state := PodState{
			Pod:   Pod{UID: string(p.UID), Namespace: p.Namespace, Name: p.Name},
			Ready: isTrue(p, v1.PodReady),
			Ended: hasEnded(p) || p.DeletionTimestamp != nil,
			//guard: a failed pod is one that has ended
			//guard: a failed pod that is being deleted keeps a roll from its end
			Failed: p.Status.Phase == v1.PodFailed && p.DeletionTimestamp == nil,
		}
		pods = append(pods, state)
	}
	return pods, nil
}
