//go:build node

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodepartition/pkg/evict"
	"nodepartition/tests/lab"
)

// TestEvictionWithout: an API server that is gone, rights that are missing, and a controller that makes the pod again.
func TestEvictionWithout(t *testing.T) {
	evictions(t,
		eviction{lab.Part{Name: "controller", Complaints: []string{evicts}}, (*evictor).controller},
		eviction{lab.Part{Name: "without rights", Complaints: []string{evicts, failing}}, (*evictor).withoutRights},
		eviction{lab.Part{Name: "API server gone", Complaints: []string{evicts, failing}}, (*evictor).apiServerGone},
	)
}

// controller: a DaemonSet makes an evicted pod again. That one leaks as well, and is restarted and not evicted: the controller would
// make the next one for ever.
func (e *evictor) controller(t *testing.T) {
	if err := e.control.StartControllers(t.Context(), "daemonset-controller"); err != nil {
		t.Fatal(err)
	}
	const name = "leaker-set"
	labels := map[string]string{"app": name}
	pod := leaker(name, "40Mi").pod()
	pod.Spec.NodeName = e.Hostname
	sets := e.control.Client().AppsV1().DaemonSets(members)
	if _, err := sets.Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var seen []evict.Eviction
	eventually(t, e.Node, "two evictions", func(context.Context) (bool, string, error) {
		seen = slices.DeleteFunc(e.history(t).Last, func(v evict.Eviction) bool { return !strings.HasPrefix(v.Name, name) })
		return len(seen) >= 2, fmt.Sprintf("%+v", seen), nil
	})
	if seen[0].Way != evict.Evict || seen[1].Way != evict.Restart || seen[0].UID == seen[1].UID || seen[0].Owner != seen[1].Owner {
		t.Errorf("first %+v\nthen  %+v\nwant one evicted for good, and the next one of the same owner restarted", seen[0], seen[1])
	}
	list, err := e.control.Client().CoreV1().Pods(members).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || string(list.Items[0].UID) != seen[1].UID {
		t.Errorf("%d pods of the set: %+v", len(list.Items), list.Items)
	}
	// It is the set that keeps its pods, so it goes first.
	if err := sets.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, pod := range list.Items {
		e.remove(t, members, pod.Name)
	}
	e.unharmed(t)
}

// withoutRights: with a kubeconfig whose user may not do it, the containers are stopped, and the journal says what to grant.
func (e *evictor) withoutRights(t *testing.T) {
	config, err := e.control.KubeconfigOf("nobody")
	if err != nil {
		t.Fatal(err)
	}
	if err := e.WriteFile(t.Context(), "/etc/kubernetes/nobody.conf", config, 0o600); err != nil {
		t.Fatal(err)
	}
	args := lab.File{Path: "/etc/default/node-partition", Data: []byte("PARTITION_MONITOR_ARGS=--kubeconfig=/etc/kubernetes/nobody.conf\n")}
	if err := e.CopyTo(t.Context(), args); err != nil {
		t.Fatal(err)
	}
	run(t, e.Node, "systemctl restart "+monitorUnit)
	e.create(t, leaker("leaker-rights", "40Mi"))
	eventually(t, e.Node, "an eviction with a word on rights", func(context.Context) (bool, string, error) {
		seen := e.evictions(t, "leaker-rights")
		return len(seen) > 0 && seen[0].Way == evict.Restart && strings.Contains(seen[0].Problem, "nobody") && strings.Contains(seen[0].Problem, "not allowed"),
			fmt.Sprintf("%+v", seen), nil
	})
	pod, err := e.control.Client().CoreV1().Pods(members).Get(t.Context(), "leaker-rights", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if pod.Status.Reason == "Evicted" {
		t.Error("it was evicted without rights")
	}
	e.remove(t, members, "leaker-rights")
	run(t, e.Node, "rm /etc/default/node-partition /etc/kubernetes/nobody.conf && systemctl restart "+monitorUnit)
	e.unharmed(t)
}

// apiServerGone: without the API server the containers are stopped, and the kubelet starts them again.
func (e *evictor) apiServerGone(t *testing.T) {
	before := e.count(t)
	pod := e.create(t, leaker("leaker-api", "20Mi"))
	if err := e.control.Interrupt(); err != nil {
		t.Fatal(err)
	}
	// The kubelet tells nobody of restarts while the API server is away. That the container grows once more, and has to be stopped once more,
	// says that it was started again.
	var seen []evict.Eviction
	err := e.Eventually(t.Context(), "the container stopped, started again, and stopped again", func(context.Context) (bool, string, error) {
		seen = e.evictions(t, "leaker-api")
		return len(seen) >= 2, fmt.Sprintf("%+v", seen), nil
	})
	// Whatever came of it: those that follow need the API server.
	if err := errors.Join(err, e.control.Restore(t.Context())); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(seen[0].Problem, "cannot be reached") || seen[0].Way != evict.Restart || seen[1].Containers[0].ID == seen[0].Containers[0].ID {
		t.Errorf("first %+v\nthen  %+v", seen[0], seen[1])
	}
	if after := e.count(t); after < before+2 {
		t.Errorf("%v evictions counted, want 2 more than %v", after, before)
	}
	if failures, err := metric(t.Context(), e.Node, `systempartition_eviction_failures_total{step="api"}`); err != nil || failures == 0 {
		t.Errorf("%v failures of the API counted: %v", failures, err)
	}
	now, err := e.control.Client().CoreV1().Pods(members).Get(t.Context(), "leaker-api", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if now.UID != pod.UID || now.Status.Reason == "Evicted" {
		t.Errorf("the pod was failed although its containers run again: %+v", now.Status)
	}
	e.remove(t, members, "leaker-api")
	if err := e.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.unharmed(t)
}
