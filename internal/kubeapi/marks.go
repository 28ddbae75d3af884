package kubeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"nodepartition/internal/nodelabel"
)

// Labels returns the names of our labels of a node.
func Labels() []string { return []string{nodelabel.Section, nodelabel.Version} }

// Conditions returns the types of our conditions of a node.
func Conditions() []v1.NodeConditionType { return []v1.NodeConditionType{Pressure, Ready} }

// Marks lists labels by name and conditions by type, which are to be on a node. A nil removes one.
type Marks struct {
	Labels     map[string]*string
	Conditions map[v1.NodeConditionType]*v1.NodeCondition
}

// SetMarks writes labels and conditions of a node, with one patch of nodes/status: the API server
// takes labels there, too (nodeStatusStrategy resets only the spec, pkg/registry/core/node,
// v1.37.0). So one right suffices. It is a strategic merge patch, which merges conditions by their
// type. NodeRestriction allows a kubelet's user to change conditions of any type, and labels of the
// node it runs on, whose prefix is not below kubernetes.io or k8s.io (admitNode and
// getForbiddenLabels, plugin/pkg/admission/noderestriction). The kubelet keeps labels and
// conditions that it does not know.
func (c *Client) SetMarks(ctx context.Context, node string, m Marks) error {
	_, err := c.do(ctx, c.patchMarks(node, m))
	return c.marksFailed("patch nodes/status", node, err)
}

// MarksRights returns the error that prevents writing the labels and the condition Ready of a node,
// nil if there is none. It is a dry run with values, because an admission policy may be about them.
func (c *Client) MarksRights(ctx context.Context, node string) error {
	version, section := "0", nodelabel.SectionValue(strings.Repeat("0", 64))
	m := Marks{
		Labels: map[string]*string{nodelabel.Version: &version, nodelabel.Section: &section},
		Conditions: map[v1.NodeConditionType]*v1.NodeCondition{Ready: {
			Type: Ready, Status: v1.ConditionUnknown, Reason: "DryRun",
			LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
		}},
	}
	_, err := c.do(ctx, c.patchMarks(node, m).Param("dryRun", metav1.DryRunAll))
	return c.marksFailed("patch nodes/status", node, err)
}

// ConditionRights returns the error that prevents writing conditions of a node, nil if there is
// none. Its patch is a dry run of a removal.
func (c *Client) ConditionRights(ctx context.Context, node string, kind v1.NodeConditionType) error {
	m := Marks{Conditions: map[v1.NodeConditionType]*v1.NodeCondition{kind: nil}}
	_, err := c.do(ctx, c.patchMarks(node, m).Param("dryRun", metav1.DryRunAll))
	return c.marksFailed("patch nodes/status", node, err)
}

// marksFailed is failed for a request about a node. A load balancer without an API server behind it
// says nothing about the node.
func (c *Client) marksFailed(what, node string, err error) error {
	//guard: a load balancer without an API server does not say that the Node is gone
	if fromAnother(err) {
		return c.about(what, "node", node, fmt.Errorf("%w: %w", ErrUnreachable, err))
	}
	return c.failed(what, "node", node, err)
}

// removedCondition is an element of a strategic merge patch that deletes the element of that type.
type removedCondition struct {
	Type  v1.NodeConditionType `json:"type"`
	Patch string               `json:"$patch"`
}

func (c *Client) patchMarks(node string, m Marks) *rest.Request {
	conditions := []any{}
	for kind, condition := range m.Conditions {
		if condition == nil {
			conditions = append(conditions, removedCondition{kind, "delete"})
		} else {
			conditions = append(conditions, condition)
		}
	}
	patch := map[string]any{"status": map[string]any{"conditions": conditions}}
	//guard: a patch of a condition alone leaves the labels of others
	if len(m.Labels) > 0 { // a null would remove the labels of all
		patch["metadata"] = map[string]any{"labels": m.Labels}
	}
	data, err := json.Marshal(patch)
	if err != nil {
		panic(err) // it has texts and times
	}
	return c.rest.Patch(types.StrategicMergePatchType).Resource("nodes").Name(node).SubResource("status").Body(data)
}

// OwnMarks reads a node. It returns what removes our labels on it that this program has written
// last, by the API server's own record of the managers of fields, and our conditions. A kubelet's
// user may get its own node.
func (c *Client) OwnMarks(ctx context.Context, node string) (Marks, error) {
	result, err := c.do(ctx, c.rest.Get().Resource("nodes").Name(node).SetHeader("Accept", "application/json"))
	var object markedObject
	if err == nil {
		var data []byte
		if data, err = result.Raw(); err == nil {
			err = json.Unmarshal(data, &object)
		}
	}
	if err != nil {
		return Marks{}, c.marksFailed("get nodes", node, err)
	}
	m := Marks{Labels: map[string]*string{}, Conditions: map[v1.NodeConditionType]*v1.NodeCondition{}}
	for _, name := range Labels() {
		//guard: labels that another program has written stay without the flag
		if _, ok := object.Metadata.Labels[name]; ok && object.isOurs("metadata", "labels", name) {
			m.Labels[name] = nil
		}
	}
	for _, condition := range object.Status.Conditions {
		if slices.Contains(Conditions(), condition.Type) {
			m.Conditions[condition.Type] = nil
		}
	}
	return m, nil
}

// markedObject is the part of a v1.Node that has marks.
type markedObject struct {
	Metadata struct {
		Labels        map[string]string           `json:"labels"`
		ManagedFields []metav1.ManagedFieldsEntry `json:"managedFields"`
	} `json:"metadata"`
	Status struct {
		Conditions []v1.NodeCondition `json:"conditions"`
	} `json:"status"`
}

// isOurs reports whether this program has written a field last.
func (o *markedObject) isOurs(path ...string) bool {
	return slices.ContainsFunc(o.Metadata.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == Component && entry.FieldsV1 != nil && hasField(entry.FieldsV1.GetRawBytes(), path...)
	})
}
