package admission

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// TestRender: each document is an object of the API, with no field that it does not have. A real
// API server compiles the CEL (tests/e2e/kubeapi).
func TestRender(t *testing.T) {
	t.Parallel()
	validating := []string{
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	}
	all := append([]string{
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
	}, validating...)
	slices.Sort(all)
	slices.Sort(validating)
	types := []Type{{Name: "a", Namespaces: []string{"y", "x", "y"}}, {Name: "b", ByNamespace: true}, {Name: "c"}}
	members := []string{"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}
	allAndMembers := slices.Sorted(slices.Values(slices.Concat(all, members)))
	for name, test := range map[string]struct {
		cluster PolicyCluster
		want    []string
	}{
		"v1":              {PolicyCluster{Types: types, APIVersion: PolicyV1}, all},
		"v1beta1":         {PolicyCluster{Types: types, APIVersion: PolicyV1Beta1}, all},
		"validating only": {PolicyCluster{Types: types, ValidatingOnly: true}, validating},
		"members":         {PolicyCluster{APIVersion: PolicyV1, Required: true, Members: []string{"m"}}, members},
		"all members":     {PolicyCluster{Types: types, APIVersion: PolicyV1, Required: true, Members: []string{"m"}}, allAndMembers},
		"those that ask":  {PolicyCluster{Types: types, APIVersion: PolicyV1, Required: true}, all},
		"not required":    {PolicyCluster{Types: types, APIVersion: PolicyV1, Members: []string{"m"}}, all},
	} {
		text, err := Policies(test.cluster)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for document := range strings.SplitSeq(text, "\n---\n") {
			var meta metav1.TypeMeta
			if err := yaml.Unmarshal([]byte(document), &meta); err != nil {
				t.Fatalf("%s: %v in\n%s", name, err, document)
			}
			got = append(got, meta.Kind)
			if err := yaml.UnmarshalStrict([]byte(document), objectOf(t, meta)); err != nil {
				t.Errorf("%s: %s: %v", name, meta.Kind, err)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v; want %v", name, got, test.want)
		}
		if required := strings.Contains(text, "required-plugins.noderesource.dev"); required != test.cluster.Required {
			t.Errorf("%s: requires the monitor: %t", name, required)
		}
		if test.cluster.Types == nil {
			continue
		}
		if !strings.Contains(text, "kind: ValidatingAdmissionPolicyBinding\nmetadata:\n  name: "+PolicyName+"\n") {
			t.Errorf("%s: no binding %s", name, PolicyName)
		}
		for _, want := range []string{"{'a': ['x', 'y'], 'b': [''], 'c': ['']}", "variables.type in ['b'] &&"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %s", name, want)
			}
		}
	}
	for _, c := range []PolicyCluster{{}, {Members: []string{"m"}}, {Required: true}} {
		if _, err := Policies(c); err == nil {
			t.Errorf("no error for %+v", c)
		}
	}
}

func objectOf(t *testing.T, meta metav1.TypeMeta) any {
	t.Helper()
	switch meta.APIVersion + " " + meta.Kind {
	case "admissionregistration.k8s.io/v1 MutatingAdmissionPolicy":
		return &admissionv1.MutatingAdmissionPolicy{}
	case "admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding":
		return &admissionv1.MutatingAdmissionPolicyBinding{}
	case "admissionregistration.k8s.io/v1beta1 MutatingAdmissionPolicy":
		return &admissionv1beta1.MutatingAdmissionPolicy{}
	case "admissionregistration.k8s.io/v1beta1 MutatingAdmissionPolicyBinding":
		return &admissionv1beta1.MutatingAdmissionPolicyBinding{}
	case "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy":
		return &admissionv1.ValidatingAdmissionPolicy{}
	case "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding":
		return &admissionv1.ValidatingAdmissionPolicyBinding{}
	case "rbac.authorization.k8s.io/v1 ClusterRole":
		return &rbacv1.ClusterRole{}
	case "rbac.authorization.k8s.io/v1 ClusterRoleBinding":
		return &rbacv1.ClusterRoleBinding{}
	}
	t.Fatalf("%s %s is not expected", meta.APIVersion, meta.Kind)
	return nil
}
