package admission

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// This file writes the rules of a conversion as policies for a stock API server, in CEL, and
// the other manifests that a cluster needs for workload types.

// Type is a workload type that all nodes of a cluster have.
type Type struct {
	Name string `json:"name"`
	// Namespaces lists the namespaces whose pods may ask for the type, by the configuration of the
	// nodes.
	Namespaces []string `json:"namespaces,omitempty"`
	// ByNamespace means that an annotation of the namespace gives that right, too.
	ByNamespace bool `json:"byNamespace,omitempty"`
	// Unconverted means that the Nodes do not have the resource of the type: its pods keep their CPU
	// requests.
	Unconverted bool `json:"unconverted,omitempty"`
}

// The most annotations, containers and resources of a container of a pod that asks. They bound the
// time that an API server takes for the rules, and a conversion writes two annotations for each
// container.
const (
	MaxAnnotations = 256
	MaxContainers  = 100
	MaxResources   = 32
)

// PolicyCluster describes a cluster.
type PolicyCluster struct {
	// Types lists the workload types that all its nodes have.
	Types []Type
	// APIVersion is the version of MutatingAdmissionPolicy that the API server serves: V1 or V1Beta1.
	APIVersion string
	// ValidatingOnly leaves out the policies that change objects, for API servers that have none: then
	// CPU requests stay, and annotations and resources of users are refused.
	ValidatingOnly bool
	// Required means that members do not start while the plugin of the monitor is not connected to a
	// runtime that has NRI's default validator: pods that ask, and those of the namespaces in Members.
	Required bool
	// Members lists the namespaces whose pods are members without asking. Only Required reads it.
	Members []string
}

// The versions of MutatingAdmissionPolicy: Kubernetes serves the first from 1.36 on, and the second
// from 1.34 on, if both a feature gate and the version are switched on.
const (
	PolicyV1      = "v1"
	PolicyV1Beta1 = "v1beta1"
)

//go:embed policy.yaml
var manifests string

// PolicyName is the name of the policies about pods, and of their bindings.
const PolicyName = "node-partition-workloads"

// TypesKey is the annotation of the ValidatingAdmissionPolicy with the types that it was rendered
// for, as a JSON list of Type.
const TypesKey = "node-partition.io/workload-types"

// Policies returns the manifests as YAML documents.
func Policies(c PolicyCluster) (string, error) {
	if len(c.Types) == 0 && (!c.Required || len(c.Members) == 0) {
		return "", errors.New("no workload type, and no namespace of a partition")
	}
	parsed, err := template.New("policy.yaml").Parse(manifests)
	if err != nil {
		return "", err
	}
	list, err := json.Marshal(c.Types)
	if err != nil {
		return "", err
	}
	namespaces, asking, converting := literals(c.Types)
	var members string
	if c.Required && len(c.Members) > 0 {
		members = literal(c.Members)
	}
	var text strings.Builder
	err = parsed.Execute(&text, map[string]any{
		"APIVersion": c.APIVersion, "ValidatingOnly": c.ValidatingOnly, "Required": c.Required, "Members": members,
		"Types": c.Types, "Namespaces": namespaces,
		"Asking": literal(asking), "Converting": literal(converting), "TypesKey": TypesKey, "TypesJSON": string(list),
		"MaxAnnotations": MaxAnnotations, "MaxContainers": MaxContainers, "MaxResources": MaxResources,
		"Asked": Requested, "Guaranteed": guaranteedWarning, "PodLevel": podLevelWarning,
		"TwoTypes": twoTypes, "Effect": badEffect, "Resource": foreignResource,
		"Fields":  []string{"requests", "limits"},
		"Amounts": []string{"capacity", "allocatable"},
		"Lists": map[string]string{
			"containers": "object.spec.containers", "initContainers": "object.spec.?initContainers.orValue([])",
		},
	})
	return text.String(), err
}

// PolicyRemoval returns the names of the objects that Policies makes, as YAML documents to delete
// them by.
func PolicyRemoval(c PolicyCluster) (string, error) {
	c.Types, c.Members, c.Required = []Type{{Name: "any"}}, []string{"any"}, !c.ValidatingOnly
	text, err := Policies(c)
	if err != nil {
		return "", err
	}
	documents := strings.Split(text, "\n---\n")
	for i, document := range documents {
		var o struct {
			metav1.TypeMeta `json:",inline"`
			Metadata        struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			return "", err
		}
		documents[i] = fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s}\n", o.APIVersion, o.Kind, o.Metadata.Name)
	}
	return strings.Join(documents, "---\n"), nil
}

// literals returns, in CEL, the namespaces of each type, and the types that an annotation of a
// namespace allows and those that are converted. All names are RFC 1123 labels.
func literals(types []Type) (namespaces string, asking, converting []string) {
	lists := make([]string, 0, len(types))
	for _, of := range types {
		list := slices.Clone(of.Namespaces)
		slices.Sort(list)
		lists = append(lists, fmt.Sprintf("'%s': %s", of.Name, literal(slices.Compact(list))))
		if of.ByNamespace {
			asking = append(asking, of.Name)
		}
		if !of.Unconverted {
			converting = append(converting, of.Name)
		}
	}
	return "{" + strings.Join(lists, ", ") + "}", asking, converting
}

// literal returns a list of names in CEL. The empty list has the empty name, which nothing has, so
// that all lists are of strings.
func literal(names []string) string {
	if len(names) == 0 {
		names = []string{""}
	}
	return "['" + strings.Join(names, "', '") + "']"
}
