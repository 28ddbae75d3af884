package policies

import (
	"errors"
	"os"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
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
