//go:build node

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// finalState leaks slowly: the pod ends in the state in which the kubelet's own eviction leaves
// pods.
func (e *evictor) finalState(t *testing.T, _ drawn) {
	e.leaks(t, leaker("leaker-final", "60Mi"))
	pod := e.evicted(t, "leaker-final")
	for _, part := range []string{"Partition system of the node was low on resource: memory. Threshold quantity: 128Mi, available: ",
		"Container main was using ", ", request is 16Mi, has larger consumption of memory."} {
		if !strings.Contains(pod.Status.Message, part) {
			t.Errorf("message %q lacks %q", pod.Status.Message, part)
		}
	}
	conditions := map[v1.PodConditionType]v1.PodCondition{}
	for _, c := range pod.Status.Conditions {
		conditions[c.Type] = c
	}
	if c := conditions[v1.DisruptionTarget]; c.Status != v1.ConditionTrue || c.Reason != v1.PodReasonTerminationByKubelet {
		t.Errorf("condition %+v", c)
	}
	if c := conditions[v1.PodReady]; c.Status != v1.ConditionFalse {
		t.Errorf("condition %+v", c)
	}
	eventually(t, e.Node, "an event", func(ctx context.Context) (bool, string, error) {
		events, err := e.control.Client().CoreV1().Events(members).List(ctx, metav1.ListOptions{FieldSelector: "reason=Evicted,involvedObject.name=leaker-final"})
		if err != nil {
			return false, "", err
		}
		return len(events.Items) == 1 && events.Items[0].Message == pod.Status.Message && events.Items[0].InvolvedObject.UID == pod.UID &&
			events.Items[0].Annotations["starved_resource"] == "memory", fmt.Sprint(events.Items), nil
	})
	// The kubelet respects this state, and starts no container again. Until it has cleaned up it may
	// drop the reason, which the monitor then writes again.
	ended := "journalctl -b -o cat --no-pager -u " + monitorUnit + " PARTITION_POD=leaker-final | grep -c '^an eviction has ended namespace='"
	becomes(t, e.Node, ended, "1")
	run(t, e.Node, "systemctl restart kubelet.service")
	if err := e.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.evicted(t, "leaker-final")
	e.unharmed(t)
	want(t, e.Node, "journalctl -b -o cat --no-pager -u "+monitorUnit+" PARTITION_POD=leaker-final | grep -c '^evicting a pod'", "1")
	if text := run(t, e.Node, monitorPath+" status"); !strings.Contains(text, "leaker-final") || !strings.Contains(text, "EVICTED ") {
		t.Errorf("status does not show it:\n%s", text)
	}
	e.remove(t, members, "leaker-final")
}

// userPod: a pod outside eats memory until the kubelet evicts it. No pod of the partition is
// evicted for it.
func (e *evictor) userPod(t *testing.T) {
	before := e.count(t)
	hungry := spec{namespace: "default", name: "leaker-user", requests: resources("10m", "16Mi"), command: []string{"/podtool", "grow", "64Mi", "200Mi", "2Gi"}}
	e.create(t, hungry)
	eventually(t, e.Node, "2 GiB used outside", func(ctx context.Context) (bool, string, error) {
		out, err := e.Run(ctx, "cat "+cgroupRoot+"kubepods.slice/memory.current")
		used, _ := strconv.ParseUint(strings.TrimSpace(out), 10, 64)
		return used > 2<<30, out, err
	})
	if after := e.count(t); after != before {
		t.Errorf("%v evictions, want %v", after, before)
	}
	e.remove(t, "default", "leaker-user")
	e.unharmed(t)
}

// onlyProtected: if all pods are protected, none is evicted, and the monitor logs it.
func (e *evictor) onlyProtected(t *testing.T) {
	for _, pod := range []string{"within", "above"} {
		e.remove(t, members, pod)
	}
	before := e.count(t)
	s := leaker("static-leaker", "50Mi")
	s.command[4] = "420Mi" // above the threshold, and below the limit: the kernel does not kill yet
	apply(t, e.Node, s)
	wantMetric(t, e.Node, `nodepartition_eviction_without_candidate{partition="system"}`, 1)
	if after := e.count(t); after != before {
		t.Errorf("%v evictions, want %v", after, before)
	}
	want(t, e.Node, "journalctl -b -o cat --no-pager -u "+monitorUnit+" MESSAGE_ID=998cfafe9eb4487eb25a0de77a72d557 | grep -c 'all its pods are protected'", "1")
	remove(t, e.Node, s)
	wantMetric(t, e.Node, `nodepartition_eviction_without_candidate{partition="system"}`, 0)
}
