package kubeapi

import (
	"errors"
	"reflect"
	"slices"
	"testing"
)

// TestNodeWithout: one node is read, and lacks what it can allocate none of.
func TestNodeWithout(t *testing.T) {
	t.Parallel()
	c := clusterClient(t, map[string]string{"/api/v1/nodes/one": nodeJSON("one", `"x/a":"4k","x/b":"0"`), "/api/v1/nodes/two": "forbidden"})
	got, err := c.NodeWithout(t.Context(), "one", []string{"x/a", "x/b", "x/c"})
	if err != nil || !slices.Equal(got, []string{"x/b", "x/c"}) {
		t.Errorf("%q, %v", got, err)
	}
	for node, want := range map[string]error{"two": ErrForbidden, "three": ErrGone} {
		if _, err := c.NodeWithout(t.Context(), node, nil); !errors.Is(err, want) {
			t.Errorf("%s: %v; want %v", node, err, want)
		}
	}
}

// TestPolicy: a policy without a binding that denies has no effect.
func TestPolicy(t *testing.T) {
	t.Parallel()
	const policies, bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/p", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/p"
	const object, denies = `{"metadata":{"annotations":{"a":"b"}}}`, `{"spec":{"validationActions":["Deny"]}}`
	for name, test := range map[string]struct {
		answers map[string]string
		want    *Policy
		err     error
	}{
		"both":      {map[string]string{policies: object, bindings: denies}, &Policy{map[string]string{"a": "b"}, true}, nil},
		"audited":   {map[string]string{policies: object, bindings: `{"spec":{"validationActions":["Audit","Warn"]}}`}, &Policy{map[string]string{"a": "b"}, false}, nil},
		"unbound":   {map[string]string{policies: "{}"}, &Policy{}, nil},
		"none":      {map[string]string{bindings: denies}, nil, nil},
		"forbidden": {map[string]string{policies: "forbidden", bindings: denies}, nil, ErrForbidden},
	} {
		got, err := clusterClient(t, test.answers).Policy(t.Context(), "p")
		if !reflect.DeepEqual(got, test.want) || !errors.Is(err, test.err) {
			t.Errorf("%s: %+v, %v; want %+v, %v", name, got, err, test.want, test.err)
		}
	}
}
