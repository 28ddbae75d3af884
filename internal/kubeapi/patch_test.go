package kubeapi

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/partition"
)

func nodeWith(capacity map[v1.ResourceName]string) v1.Node {
	node := v1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "1", ResourceVersion: "70"},
		Status:     v1.NodeStatus{Capacity: v1.ResourceList{}},
	}
	for name, value := range capacity {
		node.Status.Capacity[name] = resource.MustParse(value)
	}
	return node
}

// TestPatchNode: labels, conditions and resources are one patch of the status, so one right
// suffices. Only what is named is removed. Resources are where the kubelet and the scheduler read
// them.
func TestPatchNode(t *testing.T) {
	t.Parallel()
	another := metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "metadata.uid"}
	s := newAPIServer(t, give(nodeWith(nil)), give(nodeWith(nil)), give(nodeWith(nil)), give(nodeWith(nil)),
		refuse(http.StatusForbidden, metav1.StatusReasonForbidden), refuse(http.StatusNotFound, metav1.StatusReasonNotFound),
		refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, another), answer{code: http.StatusNotFound, text: "no backend"},
		refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid))
	c := newTestClient(t, s.URL)
	version, value := "0.1.0", int64(4000)
	marks := NodePatch{
		Labels: map[string]*string{partition.VersionLabel: &version, partition.SectionLabel: nil},
		Conditions: map[v1.NodeConditionType]*v1.NodeCondition{Ready: {
			Type: Ready, Status: v1.ConditionTrue, Reason: "Active", Message: "well.",
			LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(then),
		}},
	}
	const values = `{"a.workload.openshift.io/cores":"4000","gone.workload.openshift.io/cores":null}`
	for i, test := range []struct {
		patch NodePatch
		want  string
	}{
		{marks, `{"metadata":{"labels":{"node-partition.io/section":null,"node-partition.io/version":"0.1.0"}},"status":{"conditions":[` +
			`{"type":"SystemPartitionReady","status":"True","lastHeartbeatTime":"2026-11-20T10:11:12Z",` +
			`"lastTransitionTime":"2026-01-02T03:04:05Z","reason":"Active","message":"well."}]}}`},
		{
			NodePatch{Labels: map[string]*string{}, Conditions: map[v1.NodeConditionType]*v1.NodeCondition{Ready: nil}},
			`{"metadata":{},"status":{"conditions":[{"type":"SystemPartitionReady","$patch":"delete"}]}}`,
		},
		{
			NodePatch{UID: "1", Cores: map[string]*int64{"a": &value, "gone": nil}},
			`{"metadata":{"uid":"1"},"status":{"capacity":` + values + `,"allocatable":` + values + `}}`,
		},
	} {
		if n, err := c.PatchNode(t.Context(), "node-1", test.patch); err != nil || n.UID != "1" {
			t.Fatalf("%+v, %v", n, err)
		}
		if got := s.requests[i]; got.line != "PATCH /api/v1/nodes/node-1/status" || got.body != test.want ||
			got.contentType != "application/strategic-merge-patch+json" {
			t.Errorf("request %+v\nwant %s", got, test.want)
		}
	}
	if err := c.NodeRights(t.Context(), "node-1", true); err != nil {
		t.Fatal(err)
	}
	if got := s.requests[3]; !strings.Contains(got.line, "dryRun=All") || !strings.Contains(got.body, `"node-partition.io/section":"0`) ||
		!strings.Contains(got.body, "SystemPartitionReady") {
		t.Errorf("request %+v; want a dry run with values", got)
	}
	for _, want := range []error{ErrForbidden, ErrGone, ErrGone, ErrUnreachable, nil} {
		_, err := c.PatchNode(t.Context(), "node-1", marks)
		wantError(t, err, want, "patch nodes/status node/node-1")
	}
}

// TestNodeOurs: a label and a resource are ours if this program has written them last. Our
// condition is ours.
func TestNodeOurs(t *testing.T) {
	t.Parallel()
	node := nodeWith(map[v1.ResourceName]string{
		"cpu": "4", "a.workload.openshift.io/cores": "4k", "b.workload.openshift.io/cores": "0", ".workload.openshift.io/cores": "1",
	})
	node.Labels = map[string]string{partition.VersionLabel: "0.1.0", partition.SectionLabel: "0123456789ab", "other": "x"}
	node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady}, {Type: Ready}}
	fields := func(manager, raw string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(raw)}}
	}
	label := func(manager, name string) metav1.ManagedFieldsEntry {
		return fields(manager, `{"f:metadata":{"f:labels":{"f:`+name+`":{}}}}`)
	}
	node.ManagedFields = []metav1.ManagedFieldsEntry{
		label("partition-fleet", partition.VersionLabel), label(Component, partition.SectionLabel), label(Component, "other"), {Manager: Component},
		fields(Component, `{"f:status":{"f:capacity":{"f:a.workload.openshift.io/cores":{}}}}`),
		fields(Component, `{"f:status":{"f:conditions":{}}}`),
		fields("kubelet", `{"f:status":{"f:capacity":{"f:b.workload.openshift.io/cores":{}}}}`),
	}
	s := newAPIServer(t, give(node), give(nodeWith(nil)))
	c := newTestClient(t, s.URL)
	n, err := c.PatchNode(t.Context(), "node-1", NodePatch{})
	if err != nil || n.UID != "1" || !maps.Equal(n.Cores, map[string]int64{"a": 4000, "b": 0}) || !slices.Equal(n.Ours, []string{"a"}) ||
		!maps.Equal(n.Labels, map[string]string{partition.SectionLabel: "0123456789ab"}) ||
		len(n.Conditions) != 1 || n.Conditions[Ready].Type != Ready {
		t.Errorf("%+v, %v", n, err)
	}
	if n, err := c.PatchNode(t.Context(), "node-1", NodePatch{}); err != nil || len(n.Labels)+len(n.Conditions)+len(n.Cores) > 0 {
		t.Errorf("%+v, %v of a Node without any", n, err)
	}
	if got := s.requests[0].body; got != `{"status":{}}` {
		t.Errorf("an empty patch is %s", got)
	}
}
