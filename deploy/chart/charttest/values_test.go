package charttest

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// object is a JSON object.
type object = map[string]any

// schema returns the schema of the values.
func schema(t *testing.T) object {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(chartDir, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s object
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSchemaOfSection: the schema of the value section is docs/node-partition.schema.json, but for
// what the chart adds to the values itself.
func TestSchemaOfSection(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../docs/node-partition.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var want object
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"$schema", "title", "required", "anyOf"} {
		delete(want, key)
	}
	want["description"] = "The content of /etc/kubernetes/node-partition.yaml: docs/node-partition.schema.json."
	all := schema(t)
	all["properties"].(object)["section"] = want
	data, err = json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(chartDir, "values.schema.json")
	text := append(unescaped(data), '\n')
	if *update {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(text) {
		t.Errorf("%s is not written as JSON with sorted keys, or its section differs: go test . -run Schema -update\n%s",
			file, firstDifference(string(got), string(text)))
	}
}

// unescaped undoes what encoding/json escapes for HTML.
func unescaped(data []byte) []byte {
	return []byte(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(data)))
}

// TestSchemaIsClosed: no object of the schema takes a field that it does not name, but for maps
// whose keys are not ours.
func TestSchemaIsClosed(t *testing.T) {
	t.Parallel()
	open := map[string]bool{"/global": true} // Helm's own
	var look func(path string, s object)
	look = func(path string, s object) {
		properties, _ := s["properties"].(object)
		if s["type"] == "object" && s["additionalProperties"] == nil && !open[path] {
			t.Errorf("%s takes any field: additionalProperties is missing", path)
		}
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			property, _ := properties[name].(object)
			if path != "/section" && !strings.HasPrefix(path, "/section/") {
				look(path+"/"+name, property)
			}
		}
		if items, is := s["items"].(object); is {
			look(path+"/[]", items)
		}
	}
	look("", schema(t))
}

// word matches the first word of a comment.
var word = regexp.MustCompile(`^# \S`)

// TestValuesAreDocumented: values.yaml has each value of the schema, a comment before each, and no
// other one. The schema describes each, too.
func TestValuesAreDocumented(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	// Values whose content is the user's.
	whole := []string{"/section", "/nodePods/tolerations", "/nodePods/resources", "/dispatcher/nodeSelector", "/dispatcher/tolerations", "/dispatcher/resources"}
	count := 0
	var look func(path string, n *yaml.Node, s object)
	look = func(path string, n *yaml.Node, s object) {
		properties, _ := s["properties"].(object)
		var names []string
		for i := 0; i < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			at := path + "/" + key.Value
			names = append(names, key.Value)
			count++
			if !word.MatchString(key.HeadComment) {
				t.Errorf("values.yaml:%d: %s has no comment", key.Line, at)
			}
			property, _ := properties[key.Value].(object)
			if text, _ := property["description"].(string); text == "" {
				t.Errorf("the schema does not describe %s", at)
			}
			if value.Kind == yaml.MappingNode && !slices.Contains(whole, at) {
				look(at, value, property)
			}
		}
		for name := range properties {
			if !slices.Contains(names, name) && path+"/"+name != "/global" {
				t.Errorf("values.yaml does not have %s/%s", path, name)
			}
		}
	}
	look("", document.Content[0], schema(t))
	if count == 0 {
		t.Error("no values: this test does not find them any more")
	}
}
