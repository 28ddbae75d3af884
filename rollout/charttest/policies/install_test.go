package policies

import (
	"errors"
	"os"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

// installed returns the policies of the controller's installation.
func installed(t *testing.T) []admissionv1.ValidatingAdmissionPolicy {
	t.Helper()
	text, err := os.ReadFile("../../install.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []admissionv1.ValidatingAdmissionPolicy
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var p admissionv1.ValidatingAdmissionPolicy
		if err := yaml.Unmarshal([]byte(document), &p); err != nil {
			t.Fatal(err)
		}
		if p.Kind == "ValidatingAdmissionPolicy" {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		t.Fatal("install.yaml has no policies")
	}
	return all
}

// TestInstallVersions: the policies of the controller's installation compile on each API server
// that it is for.
func TestInstallVersions(t *testing.T) {
	t.Parallel()
	for _, p := range installed(t) {
		for server := uint(34); server <= newest+1; server++ {
			got := compile(t, server-1, environment.NewExpressions, p.Spec.MatchConditions, p.Spec.Variables, p.Spec.Validations, nil)
			if err := errors.Join(got.errs...); err != nil {
				t.Errorf("%s on 1.%d: %v", p.Name, server, err)
			}
		}
	}
}

// TestInstallNodes: the holder of the controller's token deletes no label and no annotation of
// others, also if its value is empty.
func TestInstallNodes(t *testing.T) {
	t.Parallel()
	var nodes admissionv1.ValidatingAdmissionPolicy
	for _, p := range installed(t) {
		if p.Name == "node-partition-rollout-nodes" {
			nodes = p
		}
	}
	rules := compile(t, newest, environment.StoredExpressions, nil, nil, nodes.Spec.Validations, nil).rules
	node := func(labels, annotations map[string]string) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: labels, Annotations: annotations}}
	}
	empty, own := map[string]string{"x": ""}, map[string]string{"x": "", "node-partition.io/state": ""}
	for name, test := range map[string]struct {
		old, new *v1.Node
		allowed  bool
	}{
		"nothing":                    {node(empty, empty), node(empty, empty), true},
		"a label of the project":     {node(own, empty), node(empty, empty), true},
		"an annotation of it":        {node(empty, empty), node(empty, own), true},
		"an empty label":             {node(own, empty), node(map[string]string{"node-partition.io/state": ""}, empty), false},
		"all labels":                 {node(empty, empty), node(nil, empty), false},
		"an empty annotation":        {node(empty, own), node(empty, map[string]string{"node-partition.io/state": ""}), false},
		"all annotations":            {node(empty, empty), node(empty, nil), false},
		"the value of an annotation": {node(empty, empty), node(empty, map[string]string{"x": "y"}), false},
	} {
		allowed := true
		results, _ := request{object: test.new, old: test.old, namespace: &v1.Namespace{}}.evaluate(t, rules, nil)
		for _, result := range results {
			if result.Error != nil {
				t.Fatal(result.Error)
			}
			allowed = allowed && result.EvalResult.Value() == true
		}
		if allowed != test.allowed {
			t.Errorf("%s: allowed is %t", name, allowed)
		}
	}
}
