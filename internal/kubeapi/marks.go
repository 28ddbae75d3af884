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

	"nodepartition/internal/kubeanswer"
	"nodepartition/internal/nodelabel"
)

// Labels returns the names of the labels that SetMarks writes.
func Labels() []string { return []string{nodelabel.Section, nodelabel.Version} }

// Marks lists the labels and the condition Ready of a node.
type Marks struct {
	// Version and Section are the values of nodelabel.Version and nodelabel.Section. A node has no
	// label whose value is empty.
	Version, Section string
	// Condition is Ready, with its times.
	Condition v1.NodeCondition
}

// labels returns the labels by their names; nil removes one.
func (m Marks) labels() map[string]*string {
	values := map[string]*string{nodelabel.Version: nil, nodelabel.Section: nil}
	if m.Version != "" {
		values[nodelabel.Version] = &m.Version
	}
	if m.Section != "" {
		values[nodelabel.Section] = &m.Section
	}
	return values
}

// SetMarks writes the labels and the condition of a node, with one patch of nodes/status: the API
// server takes labels there, too (nodeStatusStrategy resets only the spec, pkg/registry/core/node,
// v1.37.0). So one right suffices. NodeRestriction allows a kubelet's user to change labels of the
// node it runs on, whose prefix is not below kubernetes.io or k8s.io (getForbiddenLabels,
// plugin/pkg/admission/noderestriction). The kubelet keeps labels that it does not know.
func (c *Client) SetMarks(ctx context.Context, node string, m Marks) error {
	_, err := c.do(ctx, c.patchMarks(node, m.labels(), m.Condition))
	return c.marksFailed("patch nodes/status", node, err)
}

// RemoveMarks removes the condition Ready and the named labels from a node.
func (c *Client) RemoveMarks(ctx context.Context, node string, names []string) error {
	_, err := c.do(ctx, c.patchMarks(node, removed(names), removedCondition{Ready, "delete"}))
	return c.marksFailed("patch nodes/status", node, err)
}

// removed returns labels to remove.
func removed(names []string) map[string]*string {
	values := map[string]*string{}
	for _, name := range names {
		values[name] = nil
	}
	return values
}

// MarksRights returns the error that prevents writing the labels and the condition of a node, nil
// if there is none. It is a dry run with values, because an admission policy may be about them.
func (c *Client) MarksRights(ctx context.Context, node string) error {
	m := Marks{Version: "0", Section: nodelabel.SectionValue(strings.Repeat("0", 64))}
	m.Condition = v1.NodeCondition{
		Type: Ready, Status: v1.ConditionUnknown, Reason: "DryRun",
		LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
	}
	_, err := c.do(ctx, c.patchMarks(node, m.labels(), m.Condition).Param("dryRun", metav1.DryRunAll))
	return c.marksFailed("patch nodes/status", node, err)
}

// marksFailed is failed for a request about a node. A load balancer without an API server behind it
// says nothing about the node.
func (c *Client) marksFailed(what, node string, err error) error {
	if kubeanswer.FromAnother(err) {
		return c.about(what, "node", node, fmt.Errorf("%w: %w", ErrUnreachable, err))
	}
	return c.failed(what, "node", node, err)
}

func (c *Client) patchMarks(node string, labels map[string]*string, condition any) *rest.Request {
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"labels": labels},
		"status":   map[string]any{"conditions": []any{condition}},
	})
	if err != nil {
		panic(err) // it has texts and times
	}
	return c.rest.Patch(types.StrategicMergePatchType).Resource("nodes").Name(node).SubResource("status").Body(data)
}

// OwnMarks reads a node. It returns the names of our labels on it that this program has written
// last, by the API server's own record of the managers of fields, and whether it has the condition
// Ready. A kubelet's user may get its own node.
func (c *Client) OwnMarks(ctx context.Context, node string) (names []string, condition bool, err error) {
	result, err := c.do(ctx, c.rest.Get().Resource("nodes").Name(node).SetHeader("Accept", "application/json"))
	var object markedObject
	if err == nil {
		var data []byte
		if data, err = result.Raw(); err == nil {
			err = json.Unmarshal(data, &object)
		}
	}
	if err != nil {
		return nil, false, c.marksFailed("get nodes", node, err)
	}
	for _, name := range Labels() {
		if _, ok := object.Metadata.Labels[name]; ok && object.isOurs("metadata", "labels", name) {
			names = append(names, name)
		}
	}
	there := slices.ContainsFunc(object.Status.Conditions, func(c v1.NodeCondition) bool { return c.Type == Ready })
	return names, there, nil
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
