package kubeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"nodepartition/internal/workload"
)

// Node is a node as the API server has it.
type Node struct {
	// UID differs from the UID of a node of the same name that was deleted before.
	UID string
	// Version is the node's resourceVersion.
	Version string
	// Cores holds the capacity of the resources of workload types in thousandths of a CPU, by type.
	Cores map[string]int64
	// Ours lists the types in Cores whose value this program has written last, by the API server's
	// own record of the managers of fields.
	Ours []string
}

// nodeObject is the part of a v1.Node that is read. A whole one has kilobytes of images.
type nodeObject struct {
	Metadata struct {
		UID           string                      `json:"uid"`
		Version       string                      `json:"resourceVersion"`
		ManagedFields []metav1.ManagedFieldsEntry `json:"managedFields"`
	} `json:"metadata"`
	Status struct {
		Capacity v1.ResourceList `json:"capacity"`
	} `json:"status"`
}

func (o *nodeObject) node() Node {
	n := Node{UID: o.Metadata.UID, Version: o.Metadata.Version, Cores: map[string]int64{}}
	for name, value := range o.Status.Capacity {
		if kind, ok := workload.TypeOf(string(name)); ok {
			n.Cores[kind] = value.Value()
		}
	}
	for i := range o.Metadata.ManagedFields {
		entry := &o.Metadata.ManagedFields[i]
		if entry.Manager != Component || entry.FieldsV1 == nil {
			continue
		}
		for kind := range n.Cores {
			if hasField(entry.FieldsV1.GetRawBytes(), "status", "capacity", workload.Resource(kind)) {
				n.Ours = append(n.Ours, kind)
			}
		}
	}
	return n
}

// IsOlder reports whether n is the state of the node before other. A watch may lag behind the
// answer to a patch.
func (n Node) IsOlder(other Node) bool {
	order, err := resourceversion.CompareResourceVersion(n.Version, other.Version)
	return err == nil && order < 0
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

// SetCores writes the capacity of the resources of workload types, in thousandths of a CPU by type,
// and removes the resources whose value is nil. It returns the node as it is then. The error is
// ErrGone if the node of that UID no longer exists.
//
// The Node authorizer and NodeRestriction allow a kubelet's user to patch the status of the node it
// runs on. The kubelet keeps capacity that it does not know, copies it to allocatable, and drops
// from allocatable what left capacity (MachineInfo, pkg/kubelet/nodestatus/setters.go, v1.37.0). It
// does so at its next write, which may come ten seconds later. The patch has both, so that the
// scheduler need not wait.
func (c *Client) SetCores(ctx context.Context, node, uid string, cores map[string]*int64) (Node, error) {
	const what = "patch nodes/status"
	values := map[string]*string{}
	for kind, value := range cores {
		name := workload.Resource(kind)
		values[name] = nil
		if value != nil {
			text := strconv.FormatInt(*value, 10)
			values[name] = &text
		}
	}
	data, err := json.Marshal(map[string]any{
		//guard: capacity is written to the Node of the UID alone
		"metadata": map[string]string{"uid": uid},
		"status":   map[string]any{"capacity": values, "allocatable": values},
	})
	if err != nil {
		panic(err) // it has texts
	}
	patch := c.rest.Patch(types.MergePatchType).Resource("nodes").Name(node).SubResource("status").Body(data)
	result, err := c.do(ctx, patch)
	var object nodeObject
	if err == nil {
		err = decodeNode(result.Raw, &object)
	}
	switch {
	case err == nil:
		return object.node(), nil
	case fromAnother(err):
		return Node{}, c.about(what, "node", node, fmt.Errorf("%w: %w", ErrUnreachable, err))
	case apierrors.IsInvalid(err), apierrors.IsConflict(err): // its UID is immutable
		return Node{}, c.about(what, "node", node, fmt.Errorf("%w: %w", ErrGone, err))
	}
	return Node{}, c.failed(what, "node", node, err)
}

func decodeNode(raw func() ([]byte, error), into *nodeObject) error {
	data, err := raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}
