// Package policy writes the rules of package admission as policies for a stock API server, in CEL,
// and the other manifests that a cluster needs for workload types.
package policy

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"nodepartition/internal/admission"
)

// Cluster describes a cluster.
type Cluster struct {
	// Types lists the workload types that all its nodes have.
	Types []admission.Type
	// APIVersion is the version of MutatingAdmissionPolicy that the API server serves: V1 or V1Beta1.
	APIVersion string
	// ValidatingOnly leaves out the policies that change objects, for API servers that have none: then
	// CPU requests stay, and annotations and resources of users are refused.
	ValidatingOnly bool
}

// The versions of MutatingAdmissionPolicy: Kubernetes serves the first from 1.36 on, and the second
// from 1.34 on, if both a feature gate and the version are switched on.
const (
	V1      = "v1"
	V1Beta1 = "v1beta1"
)

//go:embed policy.yaml
var manifests string

// Name is the name of the policies about pods, and of their bindings.
const Name = "node-partition-workloads"

// Render returns the manifests as YAML documents.
func Render(c Cluster) (string, error) {
	if len(c.Types) == 0 {
		return "", errors.New("no workload type")
	}
	parsed, err := template.New("policy.yaml").Parse(manifests)
	if err != nil {
		return "", err
	}
	namespaces, asking := literals(c.Types)
	var text strings.Builder
	err = parsed.Execute(&text, map[string]any{
		"APIVersion": c.APIVersion, "ValidatingOnly": c.ValidatingOnly, "Namespaces": namespaces, "Asking": asking,
		"Texts": admission.AllTexts(), "Fields": []string{"requests", "limits"},
		"Amounts": []string{"capacity", "allocatable"},
		"Lists": map[string]string{
			"containers": "object.spec.containers", "initContainers": "object.spec.?initContainers.orValue([])",
		},
	})
	return text.String(), err
}

// literals returns, in CEL, the namespaces of each type, and the types that an annotation of a
// namespace allows. All names are RFC 1123 labels.
func literals(types []admission.Type) (namespaces, asking string) {
	lists, names := make([]string, 0, len(types)), make([]string, 0, len(types))
	for _, of := range types {
		list := slices.Clone(of.Namespaces)
		slices.Sort(list)
		lists = append(lists, fmt.Sprintf("'%s': %s", of.Name, literal(slices.Compact(list))))
		if of.ByNamespace {
			names = append(names, of.Name)
		}
	}
	return "{" + strings.Join(lists, ", ") + "}", literal(names)
}

// literal returns a list of names in CEL. The empty list has the empty name, which nothing has, so
// that all lists are of strings.
func literal(names []string) string {
	if len(names) == 0 {
		names = []string{""}
	}
	return "['" + strings.Join(names, "', '") + "']"
}
