//go:build node

package kubeapi

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ours "node-partition.io/node-partition/internal/cluster"
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

// ours returns our condition of the node, nil if there is none, and the number of its conditions.
func (c *cluster) ours() (condition *v1.NodeCondition, all int) {
	c.t.Helper()
	now, err := c.admin.CoreV1().Nodes().Get(c.t.Context(), node, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	for i := range now.Status.Conditions {
		if now.Status.Conditions[i].Type == kubeapi.Pressure {
			condition = &now.Status.Conditions[i]
		}
	}
	return condition, len(now.Status.Conditions)
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

// nodeCondition: the kubelet's user writes a condition of its own node, and of no other. Other
// conditions stay, and so does ours when the kubelet writes its own.
func nodeCondition(c *cluster) {
	c.node()
	c.want(c.monitor.NodeRights(c.t.Context(), node, false, true), nil)
	if got, _ := c.ours(); got != nil {
		c.t.Errorf("%+v after a dry run", got)
	}
	c.want(patched(c.monitor, node, aCondition(kubeapi.Pressure, v1.ConditionTrue)), nil)
	c.want(patched(c.monitor, node, aCondition(kubeapi.Pressure, v1.ConditionFalse)), nil)
	if got, all := c.ours(); got == nil || got.Status != v1.ConditionFalse || got.Message != "low." || all != 2 {
		c.t.Errorf("%+v, of %d; want it beside Ready", got, all)
	}
	ready := []byte(`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"KubeletNotReady"}]}}`)
	if _, err := c.kubelet.CoreV1().Nodes().PatchStatus(c.t.Context(), node, ready); err != nil {
		c.t.Fatal(err)
	}
	if got, all := c.ours(); got == nil || all != 2 {
		c.t.Errorf("%+v, of %d after a write of the kubelet", got, all)
	}
	c.other()
	c.want(patched(c.monitor, "two", aCondition(kubeapi.Pressure, v1.ConditionTrue)), kubeapi.ErrForbidden)
	c.want(patched(c.monitor, node, aCondition(kubeapi.Pressure, "")), nil)
	if got, all := c.ours(); got != nil || all != 1 {
		c.t.Errorf("%+v, of %d; want Ready alone", got, all)
	}
	c.want(patched(c.monitor, node, aCondition(kubeapi.Pressure, "")), nil)
}

// asNode implements ours.API with a client.
type asNode struct{ client *kubeapi.Client }

func (a asNode) Try(ctx context.Context, ask func(context.Context, *kubeapi.Client, string) error) error {
	return ask(ctx, a.client, node)
}

// recordedOccurrences: a hundred equal faults are one event with the whole count, and 25 requests
// at most. A user without the rights gets none.
func recordedOccurrences(c *cluster) {
	pod := c.pod("faulty", nil)
	fault := ours.Occurrence{Pod: known(pod), Reason: "Faulty", Message: "killed"}
	find := func() []v1.Event {
		c.t.Helper()
		list, err := c.admin.CoreV1().Events(namespace).List(c.t.Context(), metav1.ListOptions{FieldSelector: "reason=Faulty,involvedObject.uid=" + string(pod.UID)})
		if err != nil {
			c.t.Fatal(err)
		}
		return list.Items
	}
	record := func(t *testing.T, client *kubeapi.Client, done func() bool) map[ours.Result]int {
		t.Helper()
		results := make(chan ours.Result, 1000)
		var log bytes.Buffer
		r := ours.NewRecorder(asNode{client}, slog.New(slog.NewTextHandler(&log, nil)), func(result ours.Result, _ int) { results <- result })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = r.Run(ctx) // it ends with its context
		}()
		counts := map[ours.Result]int{}
		for range 10 {
			for range 10 {
				r.Record(fault)
			}
			counts[<-results]++
		}
		c.eventually("all are counted", func(context.Context) (bool, error) { return done(), nil })
		stop()
		<-ended
		close(results)
		for result := range results {
			counts[result]++
		}
		return counts
	}
	if counts := record(c.t, c.account("without"), func() bool { return true }); counts[ours.Created]+counts[ours.Repeated] != 0 || counts[ours.Dropped] == 0 || len(find()) != 0 {
		c.t.Errorf("%v, events %+v; want none", counts, find())
	}
	counts := record(c.t, c.monitor, func() bool { found := find(); return len(found) == 1 && found[0].Count == 100 })
	if counts[ours.Created] != 1 || counts[ours.Dropped] != 0 || counts[ours.Repeated] > 24 {
		c.t.Errorf("%v; want one created, and others counted", counts)
	}
	if found := find(); len(found) != 1 || found[0].Count != 100 || found[0].Source.Host != node {
		c.t.Errorf("events %+v; want one with the count", found)
	}
}
