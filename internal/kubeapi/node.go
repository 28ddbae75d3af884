package kubeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"node-partition.io/node-partition/internal/partition"
)

// Ready is the type of our condition of a node.
const Ready v1.NodeConditionType = "SystemPartitionReady"

// Labels returns the names of our labels of a node.
func Labels() []string { return []string{partition.SectionLabel, partition.VersionLabel} }

// Node is what a node has of ours, as the API server has it.
type Node struct {
	// UID differs from the UID of a node of the same name that was deleted before.
	UID string
	// Labels holds those of our labels that this program has written last, by the API server's own
	// record of the managers of fields.
	Labels map[string]string
	// Conditions holds our condition by its type.
	Conditions map[v1.NodeConditionType]v1.NodeCondition
	// Cores holds the capacity of the resources of workload types in thousandths of a CPU, by type.
	Cores map[string]int64
	// Ours lists the types in Cores whose value this program has written last.
	Ours []string
}

// NodePatch lists labels by name, conditions by type, and resources of workload types in
// thousandths of a CPU by type, which are to be on a node. A nil removes one.
type NodePatch struct {
	// UID is of the node that it is for; empty means whichever has the name.
	UID        string
	Labels     map[string]*string
	Conditions map[v1.NodeConditionType]*v1.NodeCondition
	Cores      map[string]*int64
}

// PatchNode writes labels, conditions and resources of a node with one patch of nodes/status, and
// returns what the node has of ours then. An empty patch changes nothing and is no write of the API
// server. The error is ErrGone if there is no such node.
//
// The API server takes labels with the status, too (nodeStatusStrategy resets only the spec,
// pkg/registry/core/node, v1.37.0). So one right suffices. NodeRestriction allows a kubelet's user
// to change the status of the node it runs on, and labels of it whose prefix is not below
// kubernetes.io or k8s.io (admitNode and getForbiddenLabels, plugin/pkg/admission/noderestriction).
// The kubelet keeps labels, conditions and capacity that it does not know. It copies capacity to
// allocatable at its next write, which may come ten seconds later (MachineInfo,
// pkg/kubelet/nodestatus/setters.go, v1.37.0). The patch has both, so that the scheduler need not
// wait.
func (c *Client) PatchNode(ctx context.Context, node string, p NodePatch) (Node, error) {
	var object nodeObject
	result, err := c.write(ctx, c.patchNode(node, p))
	if err == nil {
		err = decode(result, &object)
	}
	if err != nil {
		return Node{}, c.nodeFailed(node, err)
	}
	return object.node(), nil
}

// NodeRights returns the error that prevents writing to a node, nil if there is none: resources,
// and with status the labels and the condition Ready. It is a dry run with values, because an
// admission policy may be about them.
func (c *Client) NodeRights(ctx context.Context, node string, status bool) error {
	var p NodePatch
	if status {
		version, section := "0", partition.SectionValue(strings.Repeat("0", 64))
		p.Labels = map[string]*string{partition.VersionLabel: &version, partition.SectionLabel: &section}
		p.Conditions = map[v1.NodeConditionType]*v1.NodeCondition{Ready: {
			Type: Ready, Status: v1.ConditionUnknown, Reason: "DryRun",
			LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
		}}
	}
	if _, err := c.do(ctx, c.patchNode(node, p).Param("dryRun", metav1.DryRunAll)); err != nil {
		return c.nodeFailed(node, err)
	}
	return nil
}

// nodeFailed is failed for a patch of a node.
func (c *Client) nodeFailed(node string, err error) error {
	const what = "patch nodes/status"
	//guard: a refusal of a value does not say that the Node is gone
	if isOfAnother(err) {
		return c.about(what, "node", node, fmt.Errorf("%w: %w", ErrGone, err))
	}
	return c.failed(what, "node", node, err)
}

// isOfAnother reports whether an object of the name has another UID than the patch, which cannot
// be changed. If more is wrong with the patch, another cause may come first, and the error stays
// what it is.
func isOfAnother(err error) bool {
	cause, ok := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
	return ok && cause.Field == "metadata.uid"
}

// nodePatch is a strategic merge patch of a node. Conditions are merged by their type. A null in
// place of a map would remove what others have there, so that a part without content is left out.
type nodePatch struct {
	Metadata struct {
		UID    string             `json:"uid,omitempty"`
		Labels map[string]*string `json:"labels,omitempty"`
	} `json:"metadata,omitzero"`
	Status struct {
		Conditions  []any              `json:"conditions,omitempty"`
		Capacity    map[string]*string `json:"capacity,omitempty"`
		Allocatable map[string]*string `json:"allocatable,omitempty"`
	} `json:"status,omitzero"`
}

// removedCondition is an element of a strategic merge patch that deletes the element of that type.
type removedCondition struct {
	Type  v1.NodeConditionType `json:"type"`
	Patch string               `json:"$patch"`
}

func (c *Client) patchNode(node string, p NodePatch) *rest.Request {
	var patch nodePatch
	//guard: capacity is written to the Node of the UID alone
	patch.Metadata.UID = p.UID
	patch.Metadata.Labels = p.Labels
	for kind, condition := range p.Conditions {
		if condition == nil {
			patch.Status.Conditions = append(patch.Status.Conditions, removedCondition{kind, "delete"})
		} else {
			patch.Status.Conditions = append(patch.Status.Conditions, condition)
		}
	}
	values := map[string]*string{}
	for kind, value := range p.Cores {
		name := partition.WorkloadResource(kind)
		values[name] = nil
		if value != nil {
			text := strconv.FormatInt(*value, 10)
			values[name] = &text
		}
	}
	patch.Status.Capacity, patch.Status.Allocatable = values, values
	return c.merge(patch).Resource("nodes").Name(node).SubResource("status")
}

// nodeObject is the part of a v1.Node that is read. A whole one has kilobytes of images.
type nodeObject struct {
	Metadata struct {
		UID           string                      `json:"uid"`
		Labels        map[string]string           `json:"labels"`
		ManagedFields []metav1.ManagedFieldsEntry `json:"managedFields"`
	} `json:"metadata"`
	Status struct {
		Conditions []v1.NodeCondition `json:"conditions"`
		Capacity   v1.ResourceList    `json:"capacity"`
	} `json:"status"`
}

func (o *nodeObject) node() Node {
	n := Node{
		UID: o.Metadata.UID, Labels: map[string]string{}, Cores: map[string]int64{},
		Conditions: map[v1.NodeConditionType]v1.NodeCondition{},
	}
	for _, name := range Labels() {
		//guard: labels that another program has written stay without the flag
		if value, ok := o.Metadata.Labels[name]; ok && o.isOurs("metadata", "labels", name) {
			n.Labels[name] = value
		}
	}
	for _, condition := range o.Status.Conditions {
		if condition.Type == Ready {
			n.Conditions[condition.Type] = condition
		}
	}
	for name, value := range o.Status.Capacity {
		kind, ok := partition.WorkloadOf(string(name))
		if !ok {
			continue
		}
		n.Cores[kind] = value.Value()
		if o.isOurs("status", "capacity", string(name)) {
			n.Ours = append(n.Ours, kind)
		}
	}
	return n
}

// isOurs reports whether this program has written a field last.
func (o *nodeObject) isOurs(path ...string) bool {
	return slices.ContainsFunc(o.Metadata.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == Component && entry.FieldsV1 != nil && hasField(entry.FieldsV1.GetRawBytes(), path...)
	})
}

// hasField reports whether a set of managed fields has the field of that path
// (sigs.k8s.io/structured-merge-diff/fieldpath: a field's key begins with "f:").
func hasField(set []byte, path ...string) bool {
	for _, name := range path {
		var fields map[string]json.RawMessage
		if json.Unmarshal(set, &fields) != nil {
			return false
		}
		var ok bool
		if set, ok = fields["f:"+name]; !ok {
			return false
		}
	}
	return true
}
