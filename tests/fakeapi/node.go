package fakeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// WatchNode is the request of a watch of the node, as Came returns it.
const WatchNode = "GET /api/v1/nodes"

// nodeState is the node, and who watches it.
type nodeState struct {
	present *v1.Node // nil while there is none
	version int
	// watches holds what is sent to each watch. A channel is closed at the end of its watch.
	watches map[chan event]bool
	// managed lists the resources that the monitor has written last.
	managed map[v1.ResourceName]bool
}

// event is an event of a watch.
type event struct {
	Type   watch.EventType `json:"type"`
	Object any             `json:"object"`
}

// SetNode makes the node with a capacity, or changes it as its kubelet would. It is deleted if uid
// is empty.
func (c *Cluster) SetNode(uid string, capacity map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.node.present
	if before != nil && string(before.UID) != uid {
		c.node.present, c.node.managed = nil, nil
		c.tell(watch.Deleted, before)
	}
	if uid == "" {
		return
	}
	node := &v1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: Node, UID: types.UID(uid)},
		Status:     v1.NodeStatus{Capacity: v1.ResourceList{}},
	}
	for name, value := range capacity {
		node.Status.Capacity[v1.ResourceName(name)] = resource.MustParse(value)
	}
	for name := range c.node.managed {
		if had, ok := before.Status.Capacity[name]; !ok || !had.Equal(node.Status.Capacity[name]) {
			delete(c.node.managed, name)
		}
	}
	c.change(node)
}

// Capacity returns the capacity of the node by resource, nil if there is no node.
func (c *Cluster) Capacity() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return capacityOf(c.node.present)
}

func capacityOf(node *v1.Node) map[string]string {
	if node == nil {
		return nil
	}
	texts := map[string]string{}
	for name, value := range node.Status.Capacity {
		texts[string(name)] = value.String()
	}
	return texts
}

// change replaces the node, and tells it to those who watch. It is called with mu held.
func (c *Cluster) change(node *v1.Node) {
	kind := watch.Modified
	if c.node.present == nil {
		kind = watch.Added
	}
	c.node.present = node
	node.ManagedFields = nil
	for name := range c.node.managed {
		raw := fmt.Appendf(nil, `{"f:status":{"f:capacity":{%q:{}}}}`, "f:"+string(name))
		node.ManagedFields = append(node.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: "partition-monitor", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Subresource: "status",
			FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: raw},
		})
	}
	c.tell(kind, node)
}

// tell sends an event to those who watch. It is called with mu held.
func (c *Cluster) tell(kind watch.EventType, node *v1.Node) {
	c.node.version++
	node.ResourceVersion = strconv.Itoa(c.node.version)
	for to := range c.node.watches {
		to <- event{kind, node.DeepCopy()}
	}
}

// Watches returns the number of watches that go on.
func (c *Cluster) Watches() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.node.watches)
}

// EndWatches ends the watches of the node, as an API server does that is restarted.
func (c *Cluster) EndWatches() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for to := range c.node.watches {
		c.endWatch(to)
	}
}

// endWatch ends a watch, once. It is called with mu held.
func (c *Cluster) endWatch(to chan event) {
	if c.node.watches[to] {
		delete(c.node.watches, to)
		close(to)
	}
}

// maxEvents exceeds what a test sends before a watch is read.
const maxEvents = 1000

// watchNode serves a watch until it is ended. It is called with mu held, which it releases
// meanwhile.
func (c *Cluster) watchNode(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") != "true" || r.URL.Query().Get("fieldSelector") != "metadata.name="+Node {
		w.WriteHeader(http.StatusForbidden) // a kubelet may watch its own node alone
		return
	}
	events := make(chan event, maxEvents)
	if c.node.watches == nil {
		c.node.watches = map[chan event]bool{}
	}
	c.node.watches[events] = true
	if c.node.present != nil {
		events <- event{watch.Added, c.node.present.DeepCopy()}
	}
	c.mu.Unlock()
	defer c.mu.Lock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w).Flush
	_ = flush() // fails if the client is gone
	for {
		select {
		case <-r.Context().Done():
			c.mu.Lock()
			c.endWatch(events)
			c.mu.Unlock()
			return
		case next, ok := <-events:
			if !ok {
				return
			}
			_ = json.NewEncoder(w).Encode(next) // fails if the client is gone
			_ = flush()
		}
	}
}

// patchNode merges conditions and labels, which need no node, and capacity.
// A dry run of conditions and labels changes nothing.
func (c *Cluster) patchNode(body []byte, dry bool) (code int, answer any, err error) {
	if !dry {
		err = errors.Join(c.patchConditions(body), c.patchLabels(body))
	}
	if err != nil {
		return http.StatusBadRequest, status(http.StatusBadRequest), err
	}
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
	node := c.node.present
	switch uid := patch.Metadata.UID; {
	case len(patch.Status.Capacity) == 0:
		return http.StatusOK, &v1.Node{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
			ObjectMeta: metav1.ObjectMeta{Name: Node},
		}, nil
	case node == nil:
		return http.StatusNotFound, status(http.StatusNotFound), nil
	case uid != "" && uid != node.UID:
		return http.StatusUnprocessableEntity, status(http.StatusUnprocessableEntity), nil
	}
	node = node.DeepCopy()
	if c.node.managed == nil {
		c.node.managed = map[v1.ResourceName]bool{}
	}
	for name, value := range patch.Status.Capacity {
		if had, ok := node.Status.Capacity[name]; value != nil && ok && had.Equal(*value) {
			continue // the API server keeps the manager of a value that does not change
		}
		delete(node.Status.Capacity, name)
		delete(c.node.managed, name)
		if value != nil {
			node.Status.Capacity[name] = *value
			c.node.managed[name] = true
		}
	}
	if !maps.Equal(capacityOf(node), capacityOf(c.node.present)) {
		c.change(node) // a patch that changes nothing writes nothing
	}
	return http.StatusOK, node, nil
}
