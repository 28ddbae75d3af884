//go:build node

package kubeapi

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/kubeapi"
)

// node creates the Node of the kubelet, with a condition of its own.
func (c *cluster) node() *v1.Node {
	c.t.Helper()
	made, err := c.register()
	if apierrors.IsAlreadyExists(err) {
		made, err = c.admin.CoreV1().Nodes().Get(c.t.Context(), node, metav1.GetOptions{})
	}
	if err != nil {
		c.t.Fatal(err)
	}
	made.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady"}}
	if made, err = c.admin.CoreV1().Nodes().UpdateStatus(c.t.Context(), made, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	return made
}

// register creates the Node of the kubelet. It has a label, as each Node has: the API server does
// not record the managers of fields of an object that begins with none.
func (c *cluster) register() (*v1.Node, error) {
	blank := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{v1.LabelHostname: node}}}
	return c.admin.CoreV1().Nodes().Create(c.t.Context(), blank, metav1.CreateOptions{})
}

// other creates the Node of another kubelet, two.
func (c *cluster) other() {
	c.t.Helper()
	other := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "two"}}
	if _, err := c.admin.CoreV1().Nodes().Create(c.t.Context(), other, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		c.t.Fatal(err)
	}
}

// eventsAboutNode: the kubelet's user creates an event about its node and counts it. kubectl
// describe node finds it.
func eventsAboutNode(c *cluster) {
	c.want(c.monitor.EventRights(c.t.Context(), node), nil)
	if got := c.monitor.Node(); got != node {
		c.t.Errorf("the kubeconfig is of the node %q; want %q", got, node)
	}
	e := kubeapi.NewEvent(kubeapi.AboutNode(node), node, "AboutNode", "full", time.Now().Add(-time.Minute))
	c.want(c.monitor.Event(c.t.Context(), e), nil)
	e.Count, e.LastTimestamp = 5, metav1.Now()
	c.want(c.monitor.RepeatEvent(c.t.Context(), e), nil)
	selector := fmt.Sprintf("involvedObject.kind=Node,involvedObject.name=%s,involvedObject.uid=%s,reason=AboutNode,source=%s", node, node, kubeapi.Component)
	list, err := c.admin.CoreV1().Events("").List(c.t.Context(), metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		c.t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Count != 5 || list.Items[0].Namespace != metav1.NamespaceDefault ||
		time.Since(list.Items[0].LastTimestamp.Time) > patience || time.Since(list.Items[0].FirstTimestamp.Time) < time.Minute {
		c.t.Errorf("events %+v; want one, five times in a minute", list.Items)
	}
	for i := range list.Items {
		if err := c.admin.CoreV1().Events(metav1.NamespaceDefault).Delete(c.t.Context(), list.Items[i].Name, metav1.DeleteOptions{}); err != nil {
			c.t.Fatal(err)
		}
	}
	c.want(c.monitor.RepeatEvent(c.t.Context(), e), kubeapi.ErrGone)
}
