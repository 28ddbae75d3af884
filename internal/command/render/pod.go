package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"go.yaml.in/yaml/v3"
	v1 "k8s.io/api/core/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	sigsyaml "sigs.k8s.io/yaml"

	"node-partition.io/node-partition/internal/admission"
)

// Pod returns the manifest of a static pod after its conversion, in the form of the manifest: YAML
// or JSON. Fields that are not known stay, comments do not. A manifest that needs no change is
// returned as it is. With the name of a type, a pod that asks for none asks for that one. The
// warning says why the pod is not converted, if it is not.
func Pod(manifest []byte, name string) (converted []byte, warning string, err error) {
	isJSON := json.Valid(manifest)
	object, pod, err := parse(manifest)
	if err != nil {
		return nil, "", err
	}
	changed := false
	if name != "" {
		if err := admission.Ask(pod, name); err != nil {
			return nil, "", fmt.Errorf("--type=%s: %w", name, err)
		}
		changed = apply(object, admission.Edit{Set: pod.Annotations})
	}
	e, err := admission.ConvertStatic(pod)
	if err != nil {
		return nil, "", err
	}
	changed = apply(object, e) || changed
	switch {
	case !changed:
		converted = manifest
	case isJSON:
		converted, err = json.MarshalIndent(object, "", "  ")
		converted = append(converted, '\n')
	default:
		converted, err = sigsyaml.Marshal(object)
	}
	return converted, warningOf(e), err
}

// warningOf returns why a pod is not converted, if it is not.
func warningOf(e admission.Edit) string {
	if e.Warning == "" && e.Resource == "" {
		return "the pod asks for no workload type: want the annotation target.workload.openshift.io/TYPE, or --type"
	}
	return e.Warning
}

// maxManifest bounds a manifest in bytes. The kubelet reads 10 MiB (maxConfigLength,
// pkg/kubelet/config/file.go, v1.37.0).
const maxManifest = 10 << 20

// parse reads a manifest twice: as the object that is written again, and as a pod.
func parse(manifest []byte) (object map[string]any, pod *v1.Pod, err error) {
	if len(manifest) > maxManifest {
		return nil, nil, fmt.Errorf("has more than %d bytes, which the kubelet refuses", maxManifest)
	}
	if err := oneDocument(manifest); err != nil {
		return nil, nil, err
	}
	text, err := sigsyaml.YAMLToJSONStrict(manifest)
	if err != nil {
		return nil, nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&object); err != nil {
		return nil, nil, fmt.Errorf("is not an object: %w", err)
	}
	//guard: a list of pods is not a manifest
	if object["apiVersion"] != "v1" || object["kind"] != "Pod" {
		return nil, nil, fmt.Errorf("apiVersion %v, kind %v: want v1 and Pod", object["apiVersion"], object["kind"])
	}
	pod = &v1.Pod{}
	// By the case of letters, as the kubelet reads it.
	//guard: fields of a manifest are told apart by their case
	if err := utiljson.Unmarshal(text, pod); err != nil {
		return nil, nil, err
	}
	return object, pod, nil
}

// oneDocument returns an error for a file with more than one document, of which the kubelet reads
// the first.
func oneDocument(manifest []byte) error {
	decoder := yaml.NewDecoder(bytes.NewReader(manifest))
	for count := 0; ; count++ {
		var node yaml.Node
		err := decoder.Decode(&node)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		//guard: a second document is not dropped in silence
		case count > 0:
			return errors.New("has more than one document, of which the kubelet reads only the first: want one pod")
		}
	}
}

// apply changes a manifest, and reports whether it has.
func apply(object map[string]any, e admission.Edit) bool {
	changed := false
	metadata := within(object, "metadata")
	annotations := within(metadata, "annotations")
	for _, key := range e.Remove {
		if _, kept := e.Set[key]; !kept {
			delete(annotations, key)
			changed = true
		}
	}
	for key, value := range e.Set {
		changed = changed || annotations[key] != value
		annotations[key] = value
	}
	if changed {
		metadata["annotations"] = annotations
		object["metadata"] = metadata
	}
	spec := within(object, "spec")
	for _, list := range []string{"initContainers", "containers"} {
		containers, _ := spec[list].([]any)
		for _, c := range containers {
			if fields, ok := c.(map[string]any); ok {
				changed = applyTo(fields, e) || changed
			}
		}
	}
	return changed
}

// within returns the object in a field, an empty one if there is none.
func within(object map[string]any, field string) map[string]any {
	if found, ok := object[field].(map[string]any); ok {
		return found
	}
	return map[string]any{}
}

func applyTo(container map[string]any, e admission.Edit) bool {
	name, _ := container["name"].(string)
	milli, moved := e.Milli[name]
	if !moved {
		return false
	}
	resources := within(container, "resources")
	for _, field := range []string{"requests", "limits"} {
		list := within(resources, field)
		delete(list, string(v1.ResourceCPU))
		list[string(e.Resource)] = strconv.FormatInt(milli, 10)
		resources[field] = list
	}
	container["resources"] = resources
	return true
}
