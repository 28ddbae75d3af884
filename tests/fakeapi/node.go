package fakeapi

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The kinds of fields of the node: a kind and a name are the key of a field.
const (
	labelField     = "label "
	capacityField  = "capacity "
	conditionField = "condition "
)

// field is a label, a resource or a condition of the node, with the managers that own it.
type field struct {
	value    string // of a condition its JSON
	managers map[string]bool
}

// SetLabel writes a label of the node as a manager of fields, and removes it if the value is empty.
func (c *Cluster) SetLabel(name, value, manager string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fields[labelField+name] = (field{value, map[string]bool{manager: true}}); value == "" {
		delete(c.fields, labelField+name)
	}
}

// SetNode makes the node with a capacity, or changes it as its kubelet would. It is deleted if uid
// is empty.
func (c *Cluster) SetNode(uid string, capacity map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.fields
	if c.fields = map[string]field{}; c.uid != types.UID(uid) {
		before = nil
	}
	for key, f := range before {
		if !strings.HasPrefix(key, capacityField) {
			c.fields[key] = f
		}
	}
	for name, value := range capacity {
		quantity := resource.MustParse(value)
		key, f := capacityField+name, field{quantity.String(), map[string]bool{"kubelet": true}}
		if had, ok := before[key]; ok && had.value == f.value {
			f = had // who writes the value that is there becomes no owner
		}
		c.fields[key] = f
	}
	c.uid = types.UID(uid)
}

// values returns the fields of a kind by their names.
func (c *Cluster) values(kind string) map[string]string {
	values := map[string]string{}
	for key, f := range c.fields {
		if name, ok := strings.CutPrefix(key, kind); ok {
			values[name] = f.value
		}
	}
	return values
}

// Labels returns the labels of the node.
func (c *Cluster) Labels() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.values(labelField)
}

// Capacity returns the capacity of the node by resource, nil if there is no node.
func (c *Cluster) Capacity() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.uid == "" {
		return nil
	}
	return c.values(capacityField)
}

// Condition returns the condition of a type, nil if the node has none.
func (c *Cluster) Condition(kind v1.NodeConditionType) *v1.NodeCondition {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, condition := range c.present().Status.Conditions {
		if condition.Type == kind {
			return &condition
		}
	}
	return nil
}

// patchNode answers a patch of the node's status: an application, or the removal of fields. A dry
// run changes nothing.
func (c *Cluster) patchNode(r *http.Request, body []byte) (code int, answer any, err error) {
	if c.uid == "" {
		return http.StatusNotFound, status(http.StatusNotFound), nil
	}
	if r.URL.Query().Get("dryRun") != "" {
		return http.StatusOK, c.present(), nil
	}
	if r.Header.Get("Content-Type") != string(types.ApplyPatchType) {
		var patch struct {
			Metadata struct{ Labels map[string]any }
			Status   struct{ Capacity map[string]any }
		}
		err := json.Unmarshal(body, &patch)
		for name := range patch.Metadata.Labels {
			delete(c.fields, labelField+name)
		}
		for name := range patch.Status.Capacity {
			delete(c.fields, capacityField+name)
		}
		return http.StatusOK, c.present(), err
	}
	var applied v1.Node
	if err := json.Unmarshal(body, &applied); err != nil {
		return http.StatusBadRequest, status(http.StatusBadRequest), err
	}
	want := map[string]string{}
	for name, value := range applied.Labels {
		want[labelField+name] = value
	}
	for name, value := range applied.Status.Capacity {
		want[capacityField+string(name)] = value.String()
	}
	for i := range applied.Status.Conditions {
		text, err := json.Marshal(&applied.Status.Conditions[i])
		if err != nil {
			return http.StatusBadRequest, status(http.StatusBadRequest), err
		}
		want[conditionField+string(applied.Status.Conditions[i].Type)] = string(text)
	}
	manager := r.URL.Query().Get("fieldManager")
	if r.URL.Query().Get("force") == "" {
		for key, value := range want {
			if had, ok := c.fields[key]; ok && had.value != value && !had.managers[manager] {
				conflict := status(http.StatusConflict)
				cause := metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Field: key, Message: "conflict"}
				conflict.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{cause}}
				return http.StatusConflict, conflict, nil
			}
		}
	}
	c.apply(manager, want)
	return http.StatusOK, c.present(), nil
}

// apply makes a manager the owner of these fields, and of no other. A field without an owner goes.
func (c *Cluster) apply(manager string, want map[string]string) {
	for key, f := range c.fields {
		if _, ok := want[key]; !ok && f.managers[manager] {
			if delete(f.managers, manager); len(f.managers) == 0 {
				delete(c.fields, key)
			}
		}
	}
	for key, value := range want {
		f := c.fields[key]
		if f.value != value {
			f = field{value, map[string]bool{}}
		}
		f.managers[manager] = true
		c.fields[key] = f
	}
}

// present returns the node as it is.
func (c *Cluster) present() *v1.Node {
	node := &v1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: Node, UID: c.uid, Labels: c.values(labelField)},
		Status:     v1.NodeStatus{Capacity: v1.ResourceList{}},
	}
	for name, value := range c.values(capacityField) {
		node.Status.Capacity[v1.ResourceName(name)] = resource.MustParse(value)
	}
	conditions := c.values(conditionField)
	for _, kind := range slices.Sorted(maps.Keys(conditions)) {
		var condition v1.NodeCondition
		if err := json.Unmarshal([]byte(conditions[kind]), &condition); err != nil {
			panic(err) // it was written by json.Marshal
		}
		node.Status.Conditions = append(node.Status.Conditions, condition)
	}
	return node
}
