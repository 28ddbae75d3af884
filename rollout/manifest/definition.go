package manifest

import (
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"

	"node-partition.io/node-partition/internal/installer/record"
)

type object = map[string]any

// structural returns a JSON schema as a CustomResourceDefinition may have it. What that cannot say
// is left to the controller, which judges a section as a node does. Fields that are unknown are
// kept for it: the API server would drop them without a word.
func structural(s object) object {
	out := object{}
	for _, key := range []string{
		"description", "pattern", "maxLength", "minimum", "maximum", "minItems", "maxItems", "maxProperties", "enum",
	} {
		if v, ok := s[key]; ok {
			out[key] = v
		}
	}
	switch of := s["type"].(type) {
	case string:
		out["type"] = of
	case []any:
		out["type"] = of[slices.IndexFunc(of, func(v any) bool { return v != "null" })]
		out["nullable"] = slices.Contains(of, any("null"))
	}
	if s["enum"] != nil {
		out["type"] = "string"
	}
	patterns, isMap := s["patternProperties"].(object)
	if properties, ok := s["properties"].(object); ok && !isMap {
		fields := object{}
		for name, field := range properties {
			fields[name] = structural(field.(object))
		}
		out["type"], out["properties"] = "object", fields
	}
	// a field that nobody knows reaches the controller, which names it
	if s["additionalProperties"] == false {
		out["x-kubernetes-preserve-unknown-fields"] = true
	}
	for _, value := range patterns { // one has values; other names are the controller's
		if schema := value.(object); schema["type"] != "null" {
			out["type"], out["additionalProperties"] = "object", structural(schema)
		}
	}
	if items, ok := s["items"].(object); ok {
		out["items"] = structural(items)
	}
	if alternatives, ok := s["anyOf"].([]any); ok && out["type"] == nil {
		alternative(out, alternatives)
	}
	return out
}

// alternative writes a value that is a text or a number.
func alternative(out object, alternatives []any) {
	for _, a := range alternatives {
		a := a.(object)
		switch a["type"] {
		case "string":
			out["pattern"] = a["pattern"]
		case "integer":
			out["x-kubernetes-int-or-string"] = true
		case "null":
			out["nullable"] = true
		}
	}
	if out["x-kubernetes-int-or-string"] == nil {
		out["type"] = "string"
	}
}

// Definition returns the CustomResourceDefinition, as controller-gen writes it, with the schema of
// the section.
func Definition(generated, schema []byte) ([]byte, error) {
	var crd, section object
	if err := yaml.Unmarshal(generated, &crd); err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(schema, &section); err != nil {
		return nil, err
	}
	field := structural(section)
	field["description"] = "The content of /etc/kubernetes/node-partition.yaml, without apiVersion and kind."
	fields := fieldsOfSpec(crd)
	fields["section"] = field
	// as the installer has them
	least, most := fmt.Sprintf("%gm", record.MinTrial.Minutes()), fmt.Sprintf("%gm", record.MaxTrial.Minutes())
	fields["monitorArgs"].(object)["items"].(object)["pattern"] = "^" + record.MonitorArg + "$"
	fields["rollout"].(object)["properties"].(object)["trial"].(object)["x-kubernetes-validations"] = []any{object{
		"rule":    fmt.Sprintf("duration(self) >= duration('%s') && duration(self) <= duration('%s')", least, most),
		"message": fmt.Sprintf("want %s to %s", least, most),
	}}
	return yaml.Marshal(crd)
}

// fieldsOfSpec returns the schemas of the fields of spec.
func fieldsOfSpec(crd object) object {
	version := crd["spec"].(object)["versions"].([]any)[0].(object)
	top := version["schema"].(object)["openAPIV3Schema"].(object)
	return top["properties"].(object)["spec"].(object)["properties"].(object)
}
