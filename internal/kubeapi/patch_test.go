package kubeapi

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// TestApplyNode: labels, condition and resources are applied to the status, so one right suffices.
// Resources are where the kubelet and the scheduler read them, in the form that the API server
// keeps: another form of the same value would be a conflict with its other owners.
func TestApplyNode(t *testing.T) {
	t.Parallel()
	conflict := metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Field: ".status.capacity"}
	s := newAPIServer(t, give(nodeWith(nil)), give(nodeWith(nil)), give(nodeWith(nil)), give(nodeWith(nil)), give(nodeWith(nil)),
		refuse(http.StatusForbidden, metav1.StatusReasonForbidden), refuse(http.StatusNotFound, metav1.StatusReasonNotFound),
		answer{code: http.StatusNotFound, text: "no backend"}, refuse(http.StatusConflict, metav1.StatusReasonConflict, conflict))
	c := newTestClient(t, s.URL)
	then, now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), time.Date(2026, 11, 20, 10, 11, 12, 0, time.UTC)
	status := Node{
		Labels: map[string]string{partition.VersionLabel: "0.1.0"},
		Ready: &v1.NodeCondition{
			Type: Ready, Status: v1.ConditionTrue, Reason: "Active", Message: "well.",
			LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(then),
		},
	}
	const begin = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-1"`
	for i, test := range []struct {
		manager string
		node    Node
		force   bool
		want    string
	}{
		{StatusManager, status, false, begin + `,"labels":{"node-partition.io/version":"0.1.0"}},"status":{"conditions":[` +
			`{"type":"SystemPartitionReady","status":"True","lastHeartbeatTime":"2026-11-20T10:11:12Z",` +
			`"lastTransitionTime":"2026-01-02T03:04:05Z","reason":"Active","message":"well."}]}}`},
		{StatusManager, Node{}, false, begin + `}}`},
		{
			CoresManager, Node{Cores: map[string]int64{"a": 4000}}, true,
			begin + `},"status":{"capacity":{"a.workload.openshift.io/cores":"4k"},"allocatable":{"a.workload.openshift.io/cores":"4k"}}}`,
		},
	} {
		if _, err := c.ApplyNode(t.Context(), "node-1", test.manager, test.node, test.force); err != nil {
			t.Fatal(err)
		}
		got := s.requests[i]
		if !strings.HasPrefix(got.line, "PATCH /api/v1/nodes/node-1/status?") || got.body != test.want ||
			!strings.Contains(got.line+"&", "fieldManager="+test.manager+"&") || strings.Contains(got.line, "force=true") != test.force ||
			got.contentType != "application/apply-patch+yaml" {
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
	if err := c.NodeRights(t.Context(), "node-1", false); err != nil || s.requests[4].body != "{}" || !strings.Contains(s.requests[4].line, "dryRun=All") {
		t.Errorf("%v, request %+v", err, s.requests[4])
	}
	for _, want := range []error{ErrForbidden, ErrGone, ErrUnreachable, nil} {
		_, err := c.ApplyNode(t.Context(), "node-1", StatusManager, status, false)
		wantError(t, err, want, "patch nodes/status node/node-1")
		if apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) != (want == nil) {
			t.Errorf("%v is a conflict", err)
		}
	}
}

// TestRemoveFromNode: a label and a resource are removed where the kubelet and the scheduler read
// them. A part without content is left out: a null would remove all that others have there.
func TestRemoveFromNode(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t, give(nodeWith(nil)))
	c := newTestClient(t, s.URL)
	const gone = `{"a.workload.openshift.io/cores":null}`
	for i, test := range []struct {
		labels, kinds []string
		want          string
	}{
		{[]string{"x"}, nil, `{"metadata":{"labels":{"x":null}},"status":{}}`},
		{nil, []string{"a"}, `{"metadata":{},"status":{"capacity":` + gone + `,"allocatable":` + gone + `}}`},
	} {
		if _, err := c.RemoveFromNode(t.Context(), "node-1", test.labels, test.kinds); err != nil {
			t.Fatal(err)
		}
		if got := s.requests[i]; got.line != "PATCH /api/v1/nodes/node-1/status" || got.body != test.want {
			t.Errorf("request %+v\nwant %s", got, test.want)
		}
	}
}

// TestLookAtNode: of a Node we see our labels and condition, and the resources of workload types.
// The request changes nothing.
func TestLookAtNode(t *testing.T) {
	t.Parallel()
	node := nodeWith(map[v1.ResourceName]string{
		"cpu": "4", "a.workload.openshift.io/cores": "4k", "b.workload.openshift.io/cores": "0", ".workload.openshift.io/cores": "1",
	})
	node.Labels = map[string]string{partition.SectionLabel: "0123456789ab", "other": "x"}
	node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady}, {Type: Ready, Reason: "ours"}}
	s := newAPIServer(t, give(node), give(nodeWith(nil)))
	c := newTestClient(t, s.URL)
	n, err := c.LookAtNode(t.Context(), "node-1")
	if err != nil || !maps.Equal(n.Cores, map[string]int64{"a": 4000, "b": 0}) ||
		!maps.Equal(n.Labels, map[string]string{partition.SectionLabel: "0123456789ab"}) || n.Ready == nil || n.Ready.Reason != "ours" {
		t.Errorf("%+v, %v", n, err)
	}
	if n, err := c.LookAtNode(t.Context(), "node-1"); err != nil || !n.IsEmpty() {
		t.Errorf("%+v, %v of a Node without any", n, err)
	}
	if got := s.requests[0]; got.body != "{}" || got.contentType != "application/merge-patch+json" {
		t.Errorf("request %+v", got)
	}
}
