package fakeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// nodeState is the part of the node that has a UID.
type nodeState struct {
	uid      types.UID // empty while there is no node
	capacity v1.ResourceList
	// managed lists the resources that the monitor has written last.
	managed map[v1.ResourceName]bool
}

// newNode returns a node without resources.
func newNode(uid string) nodeState {
	return nodeState{types.UID(uid), v1.ResourceList{}, map[v1.ResourceName]bool{}}
}

// SetNode makes the node with a capacity, or changes it as its kubelet would. It is deleted if uid
// is empty.
func (c *Cluster) SetNode(uid string, capacity map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if string(c.node.uid) != uid {
		c.node = newNode(uid)
	}
	before := c.node.capacity
	c.node.capacity = v1.ResourceList{}
	for name, value := range capacity {
		c.node.capacity[v1.ResourceName(name)] = resource.MustParse(value)
	}
	maps.DeleteFunc(c.node.managed, func(name v1.ResourceName, _ bool) bool {
		now, ok := c.node.capacity[name]
		return !ok || !now.Equal(before[name])
	})
}

// Capacity returns the capacity of the node by resource, nil if there is no node.
func (c *Cluster) Capacity() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.node.uid == "" {
		return nil
	}
	texts := map[string]string{}
	for name, value := range c.node.capacity {
		texts[string(name)] = value.String()
	}
	return texts
}

// patchNode merges conditions, labels and capacity. A dry run changes nothing.
func (c *Cluster) patchNode(body []byte, dry bool) (code int, answer any, err error) {
	var patch struct {
		Metadata struct {
			UID types.UID `json:"uid"`
		} `json:"metadata"`
		Status struct {
			Capacity map[v1.ResourceName]*resource.Quantity `json:"capacity"`
		} `json:"status"`
	}
	if err := json.Unmarshal(body, &patch); err != nil {
		return http.StatusBadRequest, status(http.StatusBadRequest), err
	}
	switch uid := patch.Metadata.UID; {
	case c.node.uid == "":
		return http.StatusNotFound, status(http.StatusNotFound), nil
	case uid != "" && uid != c.node.uid:
		invalid := status(http.StatusUnprocessableEntity)
		invalid.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "metadata.uid"}}}
		return http.StatusUnprocessableEntity, invalid, nil
	case dry:
		return http.StatusOK, c.present(), nil
	}
	if err := errors.Join(c.patchConditions(body), c.patchLabels(body)); err != nil {
		return http.StatusBadRequest, status(http.StatusBadRequest), err
	}
	for name, value := range patch.Status.Capacity {
		if had, ok := c.node.capacity[name]; value != nil && ok && had.Equal(*value) {
			continue // the API server keeps the manager of a value that does not change
		}
		delete(c.node.capacity, name)
		delete(c.node.managed, name)
		if value != nil {
			c.node.capacity[name], c.node.managed[name] = *value, true
		}
	}
	return http.StatusOK, c.present(), nil
}

// present returns the node as it is.
func (c *Cluster) present() *v1.Node {
	node := &v1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: Node, UID: c.node.uid, Labels: map[string]string{}},
		Status:     v1.NodeStatus{Capacity: c.node.capacity},
	}
	managed := func(manager, format, name string) {
		node.ManagedFields = append(node.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: &metav1.FieldsV1{Raw: fmt.Appendf(nil, format, "f:"+name)},
		})
	}
	for _, name := range slices.Sorted(maps.Keys(c.labels)) {
		node.Labels[name] = c.labels[name].value
		managed(c.labels[name].manager, `{"f:metadata":{"f:labels":{".":{},%q:{}}}}`, name)
	}
	for name := range c.node.managed {
		managed("partition-monitor", `{"f:status":{"f:capacity":{%q:{}}}}`, string(name))
	}
	for _, kind := range slices.Sorted(maps.Keys(c.Conditions)) {
		node.Status.Conditions = append(node.Status.Conditions, c.Conditions[kind])
	}
	return node
}
