package kubeapi

import (
	"net/http"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNotReady: the condition Ready decides, and its message says why.
func TestNotReady(t *testing.T) {
	t.Parallel()
	node := func(conditions ...v1.NodeCondition) answer {
		return give(v1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, Status: v1.NodeStatus{Conditions: conditions}})
	}
	s := newAPIServer(t,
		node(v1.NodeCondition{Type: v1.NodeMemoryPressure, Status: v1.ConditionTrue}, v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue}),
		node(v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionUnknown, Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting."}),
		node(), refuse(http.StatusForbidden, metav1.StatusReasonForbidden))
	c := newTestClient(t, s.URL)
	for _, want := range []string{"", "NodeStatusUnknown: Kubelet stopped posting.", "it has no condition Ready"} {
		if got, err := c.NotReady(t.Context(), "node-1"); err != nil || got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	_, err := c.NotReady(t.Context(), "node-1")
	wantError(t, err, ErrForbidden, "get nodes/node-1")
	if line := s.requests[0].line; line != "GET /api/v1/nodes/node-1" {
		t.Error(line)
	}
}

// TestPodsOn: a kubelet's user may list the pods of this node alone.
func TestPodsOn(t *testing.T) {
	t.Parallel()
	ended := v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "2", Namespace: "a", Name: "job"}, Status: v1.PodStatus{Phase: v1.PodSucceeded}}
	now := metav1.Now()
	deleted := v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "3", Namespace: "a", Name: "old", DeletionTimestamp: &now}}
	evicted := v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "4", Namespace: "a", Name: "evicted"}, Status: v1.PodStatus{Phase: v1.PodFailed}}
	gone := v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "5", Namespace: "a", Name: "gone", DeletionTimestamp: &now}, Status: evicted.Status}
	s := newAPIServer(t, give(v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []v1.Pod{*running(), ended, deleted, evicted, gone}}))
	got, err := newTestClient(t, s.URL).PodsOn(t.Context(), "node-1")
	want := []PodState{
		{Pod: Pod{"1", "kube-system", "dns"}, Ready: true}, {Pod: Pod{"2", "a", "job"}, Ended: true},
		{Pod: Pod{"3", "a", "old"}, Ended: true}, {Pod: Pod{"4", "a", "evicted"}, Ended: true, Failed: true},
		{Pod: Pod{"5", "a", "gone"}, Ended: true},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if line := s.requests[0].line; line != "GET /api/v1/pods?fieldSelector=spec.nodeName%3Dnode-1" {
		t.Error(line)
	}
}
