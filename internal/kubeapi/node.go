package kubeapi

import (
	"context"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"node-partition.io/node-partition/internal/partition"
)

// Ready is the type of our condition of a node.
const Ready v1.NodeConditionType = "SystemPartitionReady"

// Labels returns the names of our labels of a node.
func Labels() []string { return []string{partition.SectionLabel, partition.VersionLabel} }

// Node is what a node has of ours, or is to have.
type Node struct {
	// Labels holds labels by name.
	Labels map[string]string
	// Ready is the condition of that type, nil without one.
	Ready *v1.NodeCondition
	// Cores holds the capacity of the resources of workload types in thousandths of a CPU, by type.
	Cores map[string]int64
}

// IsEmpty reports whether a node has nothing of ours.
func (n Node) IsEmpty() bool { return len(n.Labels) == 0 && n.Ready == nil && len(n.Cores) == 0 }

// A manager owns the fields of a node that it has applied (metadata.managedFields). What it does
// not apply again, the API server removes, unless another program has applied or changed it.
const (
	// StatusManager applies the labels and the condition.
	StatusManager = Component
	// CoresManager applies the resources of workload types.
	CoresManager = Component + "-resources"
)

// LookAtNode returns what a node has of ours. It is a patch without content, which changes nothing:
// a user who may write the status of a node may have no right to read it.
func (c *Client) LookAtNode(ctx context.Context, node string) (Node, error) {
	return c.patchNode(ctx, node, c.look())
}

func (c *Client) look() *rest.Request { return c.patchOf(types.MergePatchType, struct{}{}) }

// ApplyNode applies, as a manager, what a node is to have, and returns what it has of ours then
// (server-side apply). Without force a value that another manager has changed is a conflict, which
// names the manager (metav1.CauseTypeFieldManagerConflict). The error is ErrGone if there is no
// such node.
//
// It is a patch of nodes/status. The API server takes labels with it, too (nodeStatusStrategy
// resets only the spec, pkg/registry/core/node, v1.37.0). So one right suffices. NodeRestriction
// allows a kubelet's user to change the status of the node it runs on, and labels of it whose
// prefix is not below kubernetes.io or k8s.io (admitNode and getForbiddenLabels,
// plugin/pkg/admission/noderestriction). The kubelet keeps labels, conditions and capacity that it
// does not know. It copies capacity to allocatable at its next write, which may come ten seconds
// later (MachineInfo, pkg/kubelet/nodestatus/setters.go, v1.37.0). The patch has both, so that the
// scheduler need not wait.
func (c *Client) ApplyNode(ctx context.Context, node, manager string, n Node, force bool) (Node, error) {
	return c.patchNode(ctx, node, c.apply(node, manager, n, force))
}

// RemoveFromNode removes labels and resources of workload types from a node, whoever owns them.
func (c *Client) RemoveFromNode(ctx context.Context, node string, labels, kinds []string) (Node, error) {
	var patch struct {
		Metadata struct {
			Labels map[string]*string `json:"labels,omitempty"`
		} `json:"metadata"`
		Status struct {
			Capacity    map[string]*string `json:"capacity,omitempty"`
			Allocatable map[string]*string `json:"allocatable,omitempty"`
		} `json:"status"`
	}
	patch.Metadata.Labels, patch.Status.Capacity = map[string]*string{}, map[string]*string{}
	for _, name := range labels {
		patch.Metadata.Labels[name] = nil
	}
	for _, kind := range kinds {
		patch.Status.Capacity[partition.WorkloadResource(kind)] = nil
	}
	patch.Status.Allocatable = patch.Status.Capacity
	return c.patchNode(ctx, node, c.merge(patch))
}

// NodeRights returns the error that prevents writing to the status of a node, nil if there is none.
// With status it is a dry run with labels and the condition Ready, because an admission policy may
// be about their values, and else one without content.
func (c *Client) NodeRights(ctx context.Context, node string, status bool) error {
	request := c.look()
	if status {
		request = c.apply(node, StatusManager, Node{
			Labels: map[string]string{
				partition.VersionLabel: "0", partition.SectionLabel: partition.SectionValue(strings.Repeat("0", 64)),
			},
			Ready: &v1.NodeCondition{
				Type: Ready, Status: v1.ConditionUnknown, Reason: "DryRun",
				LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
			},
		}, true)
	}
	_, err := c.patchNode(ctx, node, request.Param("dryRun", metav1.DryRunAll))
	return err
}

// nodeStatus is a v1.Node as far as it is applied or read. A whole one has kilobytes of images.
type nodeStatus struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels,omitempty"`
	} `json:"metadata"`
	Status struct {
		Conditions  []v1.NodeCondition `json:"conditions,omitempty"`
		Capacity    v1.ResourceList    `json:"capacity,omitempty"`
		Allocatable v1.ResourceList    `json:"allocatable,omitempty"`
	} `json:"status,omitzero"`
}

func (c *Client) apply(node, manager string, n Node, force bool) *rest.Request {
	object := nodeStatus{APIVersion: "v1", Kind: "Node"}
	object.Metadata.Name, object.Metadata.Labels = node, n.Labels
	if n.Ready != nil {
		object.Status.Conditions = []v1.NodeCondition{*n.Ready}
	}
	if len(n.Cores) > 0 {
		values := v1.ResourceList{}
		for kind, value := range n.Cores {
			values[v1.ResourceName(partition.WorkloadResource(kind))] = *resource.NewQuantity(value, resource.DecimalSI)
		}
		object.Status.Capacity, object.Status.Allocatable = values, values
	}
	request := c.patchOf(types.ApplyPatchType, object).Param("fieldManager", manager)
	if force {
		request.Param("force", "true")
	}
	return request
}

// patchNode sends a patch of the status of a node, and returns what the node has of ours then.
func (c *Client) patchNode(ctx context.Context, node string, patch *rest.Request) (Node, error) {
	var object nodeStatus
	result, err := c.write(ctx, patch.Resource("nodes").Name(node).SubResource("status"))
	if err == nil {
		err = decode(result, &object)
	}
	if err != nil {
		return Node{}, c.failed("patch nodes/status", "node", node, err)
	}
	n := Node{Labels: map[string]string{}, Cores: map[string]int64{}}
	for name, value := range object.Metadata.Labels {
		if slices.Contains(Labels(), name) {
			n.Labels[name] = value
		}
	}
	for i := range object.Status.Conditions {
		if object.Status.Conditions[i].Type == Ready {
			n.Ready = &object.Status.Conditions[i]
		}
	}
	for name, value := range object.Status.Capacity {
		if kind, ok := partition.WorkloadOf(string(name)); ok {
			n.Cores[kind] = value.Value()
		}
	}
	return n, nil
}
