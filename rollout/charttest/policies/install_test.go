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

// TestInstallVersions: the policies of the controller's installation compile on each API server
// that it is for.
func TestInstallVersions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../install.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var p admissionv1.ValidatingAdmissionPolicy
		if err := yaml.Unmarshal([]byte(document), &p); err != nil {
			t.Fatal(err)
		}
		if p.Kind != "ValidatingAdmissionPolicy" {
			continue
		}
		found++
		for server := uint(34); server <= newest+1; server++ {
			got := compile(t, server-1, environment.NewExpressions, p.Spec.MatchConditions, p.Spec.Variables, p.Spec.Validations, nil)
			if err := errors.Join(got.errs...); err != nil {
				t.Errorf("%s on 1.%d: %v", p.Name, server, err)
			}
		}
	}
	if found == 0 {
		t.Error("install.yaml has no policies")
	}
}
