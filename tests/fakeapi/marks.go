package fakeapi

import "encoding/json"

// label is a label of the node.
type label struct {
	value string
	// manager has written the value.
	manager string
}

// SetLabel writes a label of the node as a manager of fields, and removes it if the value is empty.
func (c *Cluster) SetLabel(name, value, manager string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.labels == nil {
		c.labels = map[string]label{}
	}
	if c.labels[name] = (label{value, manager}); value == "" {
		delete(c.labels, name)
	}
}

// Labels returns the labels of the node.
func (c *Cluster) Labels() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	values := map[string]string{}
	for name, l := range c.labels {
		values[name] = l.value
	}
	return values
}

// patchLabels merges labels of the node, which need no node. A value that does not change keeps its
// manager.
func (c *Cluster) patchLabels(body []byte) error {
	var patch struct {
		Metadata struct {
			Labels map[string]*string `json:"labels"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(body, &patch); err != nil {
		return err
	}
	if c.labels == nil {
		c.labels = map[string]label{}
	}
	for name, value := range patch.Metadata.Labels {
		switch {
		case value == nil:
			delete(c.labels, name)
		case c.labels[name].value != *value:
			c.labels[name] = label{*value, "partition-monitor"}
		}
	}
	return nil
}
