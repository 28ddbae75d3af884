package manifest

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the files of the chart instead of comparing with them")

const (
	definition = "../chart/crds/nodepartitions.yaml"
	policy     = "../chart/templates/_pod.tpl"
	schema     = "../../docs/node-partition.schema.json"
	// generator writes the definition without the section.
	generator = "sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0"
)

// TestDefinition: the definition has the schema of the project's own types.
func TestDefinition(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(schema)
	if err != nil {
		t.Fatal(err)
	}
	generated, err := os.ReadFile(definition)
	if *update {
		generated = generate(t)
	} else if err != nil {
		t.Fatal(err)
	}
	made, err := Definition(generated, text)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(definition, made, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	var have, want any
	if err := yaml.Unmarshal(generated, &have); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(made, &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("%s has not the schema of the section: go test ./manifest -update", definition)
	}
}

// generate has controller-gen write the definition.
func generate(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "run", generator, "crd", "object", "paths=./api/...", "output:crd:dir="+dir)
	cmd.Dir = ".."
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", cmd, err, output)
	}
	text, err := os.ReadFile(filepath.Join(dir, "node-partition.io_nodepartitions.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestPolicy: the chart has the policy of the template.
func TestPolicy(t *testing.T) {
	t.Parallel()
	made, err := PodPolicy()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(policy, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(policy); err != nil || !bytes.Equal(have, []byte(made)) {
		t.Errorf("%v: %s is not the policy of the template: go test ./manifest -update", err, policy)
	}
}
