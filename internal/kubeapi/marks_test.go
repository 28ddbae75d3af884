package kubeapi

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodepartition/internal/nodelabel"
)

// TestSetMarks: labels and condition are one patch of the status, so one right suffices. Only what
// is named is removed.
func TestSetMarks(t *testing.T) {
	t.Parallel()
	node := v1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}}
	s := newAPIServer(t, give(node), give(node), give(node), refuse(http.StatusForbidden, metav1.StatusReasonForbidden),
		refuse(http.StatusNotFound, metav1.StatusReasonNotFound), answer{code: http.StatusNotFound, text: "no backend"})
	c := newTestClient(t, s.URL)
	version := "0.1.0"
	m := Marks{
		Labels: map[string]*string{nodelabel.Version: &version, nodelabel.Section: nil},
		Conditions: map[v1.NodeConditionType]*v1.NodeCondition{Ready: {
			Type: Ready, Status: v1.ConditionTrue, Reason: "Active", Message: "well.",
			LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(then),
		}},
	}
	if err := c.SetMarks(t.Context(), "node-1", m); err != nil {
		t.Fatal(err)
	}
	removal := Marks{Conditions: map[v1.NodeConditionType]*v1.NodeCondition{Pressure: nil}}
	if err := c.SetMarks(t.Context(), "node-1", removal); err != nil {
		t.Fatal(err)
	}
	if err := c.MarksRights(t.Context(), "node-1"); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		`{"metadata":{"labels":{"node-partition.io/section":null,"node-partition.io/version":"0.1.0"}},"status":{"conditions":[` +
			`{"type":"SystemPartitionReady","status":"True","lastHeartbeatTime":"2026-11-20T10:11:12Z",` +
			`"lastTransitionTime":"2026-01-02T03:04:05Z","reason":"Active","message":"well."}]}}`,
		`{"status":{"conditions":[{"type":"SystemPartitionPressure","$patch":"delete"}]}}`,
	} {
		if got := s.requests[i]; got.line != "PATCH /api/v1/nodes/node-1/status" || got.body != want ||
			got.contentType != "application/strategic-merge-patch+json" {
			t.Errorf("request %+v\nwant %s", got, want)
		}
	}
	if got := s.requests[2]; !strings.Contains(got.line, "dryRun=All") || !strings.Contains(got.body, `"node-partition.io/section":"0`) {
		t.Errorf("request %+v; want a dry run with values", got)
	}
	for _, want := range []error{ErrForbidden, ErrGone, ErrUnreachable} {
		wantError(t, c.SetMarks(t.Context(), "node-1", m), want, "patch nodes/status node/node-1")
	}
}

// TestOwnMarks: a label is ours if this program has written it last.
func TestOwnMarks(t *testing.T) {
	t.Parallel()
	node := nodeWith(nil)
	node.Labels = map[string]string{nodelabel.Version: "0.1.0", nodelabel.Section: "0123456789ab", "other": "x"}
	node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady}, {Type: Ready}, {Type: Pressure}}
	label := func(manager, name string) metav1.ManagedFieldsEntry {
		raw := `{"f:metadata":{"f:labels":{"f:` + name + `":{}}}}`
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(raw)}}
	}
	node.ManagedFields = []metav1.ManagedFieldsEntry{
		label("partition-rollout", nodelabel.Version), label(Component, nodelabel.Section), label(Component, "other"), {Manager: Component},
	}
	s := newAPIServer(t, give(node), give(nodeWith(nil)), refuse(http.StatusForbidden, metav1.StatusReasonForbidden),
		answer{code: http.StatusNotFound, text: "no backend"})
	c := newTestClient(t, s.URL)
	m, err := c.OwnMarks(t.Context(), "node-1")
	if names, kinds := slices.Collect(maps.Keys(m.Labels)), slices.Sorted(maps.Keys(m.Conditions)); err != nil ||
		!slices.Equal(names, []string{nodelabel.Section}) || !slices.Equal(kinds, Conditions()) {
		t.Errorf("%q, %q, %v", names, kinds, err)
	}
	if m, err := c.OwnMarks(t.Context(), "node-1"); err != nil || len(m.Labels) > 0 || len(m.Conditions) > 0 {
		t.Errorf("%v, %v of a Node without any", m, err)
	}
	if got := s.requests[0].line; got != "GET /api/v1/nodes/node-1" {
		t.Errorf("request %s", got)
	}
	for _, want := range []error{ErrForbidden, ErrUnreachable} {
		_, err := c.OwnMarks(t.Context(), "node-1")
		wantError(t, err, want, "get nodes node/node-1")
	}
}
