package kubeletconfig

import (
	"bytes"
	"encoding/json"
	"fmt"

	sigsyaml "sigs.k8s.io/yaml"
)

// SectionOf returns spec.section of a NodePartition in YAML or JSON, and remarks on the form of the
// file. It returns nil if data is no NodePartition.
func SectionOf(data []byte) (section []byte, remarked []string) {
	var object struct {
		Kind string `json:"kind"`
		Spec struct {
			Section json.RawMessage `json:"section"`
		} `json:"spec"`
	}
	converted, plain, err := toJSON(data)
	if err != nil || json.Unmarshal(converted, &object) != nil || object.Kind != "NodePartition" {
		return nil, nil
	}
	if !plain {
		var second string
		// kubectl applies each document. Of a configuration the kubelet reads the first alone.
		if remarked, second = remarks(data); second != "" {
			remarked = append(remarked, "has another YAML document, which is not judged: one NodePartition in a file at a time")
		}
	}
	if object.Spec.Section == nil {
		return []byte("null"), remarked
	}
	return object.Spec.Section, remarked
}

// LoadSection makes OverridePath of the section of a NodePartition, which is JSON, and reads it as
// LoadDocument does. The text is the same for each order of the fields.
func LoadSection(name string, section []byte) (text []byte, merged *Merged, err error) {
	decoder := json.NewDecoder(bytes.NewReader(section))
	decoder.UseNumber()
	var fields map[string]any
	if err := decoder.Decode(&fields); err != nil || fields == nil {
		return nil, &Merged{}, fmt.Errorf("%s: want an object with the field %s or %s", name, SectionField, WorkloadsField)
	}
	for field, want := range map[string]string{"apiVersion": APIVersion, "kind": Kind} {
		if has, ok := fields[field]; ok && has != want {
			return nil, &Merged{}, fmt.Errorf("%s: %s: want %s, or leave the field out", name, field, want)
		}
		fields[field] = want
	}
	if text, err = sigsyaml.Marshal(fields); err != nil {
		return nil, &Merged{}, fmt.Errorf("%s: %w", name, err)
	}
	if merged, err = LoadDocument(name, text); err != nil {
		return text, merged, err
	}
	// a section that the kubelet would read as its own configuration does not reach a node
	if field := merged.OfKubelet(); field != "" {
		return text, merged, fmt.Errorf("%s: %s: unknown field; want %s and %s alone", name, field, SectionField, WorkloadsField)
	}
	return text, merged, nil
}
