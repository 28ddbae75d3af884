//go:build node

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/tests/lab"
)

// withoutRights: with a kubeconfig whose user lacks the rights, the containers are stopped, and the
// journal lists the rights to grant.
func (e *evictor) withoutRights(t *testing.T) {
	config, err := e.control.KubeconfigOf("nobody")
	if err != nil {
		t.Fatal(err)
	}
	if err := e.WriteFile(t.Context(), "/etc/kubernetes/nobody.conf", config, 0o600); err != nil {
		t.Fatal(err)
	}
	args := lab.File{Path: monitorDefaults, Data: []byte("PARTITION_MONITOR_ARGS=--kubeconfig=/etc/kubernetes/nobody.conf\n")}
	if err := e.CopyTo(t.Context(), args); err != nil {
		t.Fatal(err)
	}
	run(t, e.Node, "systemctl restart "+monitorUnit)
	e.leaks(t, leaker("leaker-rights", "60Mi"))
	eventually(t, e.Node, "an eviction with a word on rights", func(context.Context) (bool, string, error) {
		seen := e.evictions(t, "leaker-rights")
		return len(seen) > 0 && seen[0].Method == evict.Restart && strings.Contains(seen[0].Problem, "nobody") && strings.Contains(seen[0].Problem, "not allowed"),
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
	run(t, e.Node, "rm "+monitorDefaults+" /etc/kubernetes/nobody.conf && systemctl restart "+monitorUnit)
	e.unharmed(t)
}

// apiServerGone: without the API server the containers are stopped, and the kubelet starts them
// again.
func (e *evictor) apiServerGone(t *testing.T) {
	before := e.count(t)
	pod := e.create(t, leaker("leaker-api", "60Mi"))
	if err := e.control.Interrupt(); err != nil {
		t.Fatal(err)
	}
	// The kubelet cannot report restarts while the API server is away. If the container grows and is
	// stopped once more, it was started again.
	var seen []evict.Eviction
	err := e.Eventually(t.Context(), "the container stopped, started again, and stopped again", func(context.Context) (bool, string, error) {
		seen = e.account(t).of(pod) // the second may be over before the first is known to stay unreported
		return len(seen) >= 2 && seen[0].Reported, fmt.Sprintf("%+v", seen), nil
	})
	// In any case the following parts need the API server.
	if err := errors.Join(err, e.control.Restore(t.Context())); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(seen[0].Problem, "cannot be reached") || seen[0].Method != evict.Restart || seen[1].Containers[0].ID == seen[0].Containers[0].ID {
		t.Errorf("first %+v\nthen  %+v", seen[0], seen[1])
	}
	if after := e.count(t); after < before+2 {
		t.Errorf("%v evictions counted, want 2 more than %v", after, before)
	}
	if failures, err := metric(t.Context(), e.Node, `nodepartition_eviction_failures_total{partition="system",step="api"}`); err != nil || failures == 0 {
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
