package schema

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/tests/generator/golden"
	"node-partition.io/node-partition/tests/testkit"
)

var update = flag.Bool("update", false, "write the schema instead of comparing with it")

const published = "../../docs/node-partition.schema.json"

// TestSchema: the published schema is the one of the types.
func TestSchema(t *testing.T) {
	made, err := newSchema("../../pkg/slices/config")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(published, made, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(published); err != nil || !bytes.Equal(have, made) {
		t.Errorf("%v: docs/node-partition.schema.json is not the schema of the types: go test ./tests/schema -update", err)
	}
}

// validator returns the validator of the published schema.
var validator = sync.OnceValues(func() (*validate.SchemaValidator, error) {
	text, err := os.ReadFile(published)
	if err != nil {
		return nil, err
	}
	var schema spec.Schema
	if err := json.Unmarshal(text, &schema); err != nil {
		return nil, err
	}
	return validate.NewSchemaValidator(&schema, nil, "", strfmt.Default), nil
})

// accepts returns the errors of the published schema for a document in YAML.
func accepts(t *testing.T, document string) []error {
	t.Helper()
	v, err := validator()
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := yaml.Unmarshal([]byte(document), &value); err != nil {
		t.Fatalf("%v:\n%s", err, document)
	}
	return v.Validate(value).Errors
}

// isYAML reports whether a document is YAML.
func isYAML(document string) bool { return yaml.Unmarshal([]byte(document), new(any)) == nil }

// judged returns the warnings and the problems of the program, for a node that is not known.
func judged(document string) (warnings []string, problems error) {
	k, err := kubeletconfig.LoadDocument("node-partition.yaml", []byte(document))
	if err != nil {
		return nil, err
	}
	c, err := config.Validate(k, config.Size{})
	return c.Warnings, err
}

var (
	// fenced is a block of YAML in Markdown, and literal one in a manual page.
	fenced  = regexp.MustCompile("(?ms)^ *```yaml\n(.*?)^ *```$")
	literal = regexp.MustCompile(`(?ms)^\.Bd -literal -offset indent\n(.*?)^\.Ed$`)
	section = regexp.MustCompile(`(?m)^(systemPartition|workloadPartitions):`)
)

// TestExamples: each example of a section in the documentation is valid, by the schema and by the
// program.
func TestExamples(t *testing.T) {
	found := 0
	for page, text := range testkit.Files(t, "../../README.md", "../../docs/*.md", "../../man/*.[58]") {
		for _, block := range append(fenced.FindAllStringSubmatch(text, -1), literal.FindAllStringSubmatch(text, -1)...) {
			example := dedent(block[1])
			if !section.MatchString(example) {
				continue
			}
			found++
			if !strings.Contains(example, "kind:") {
				example = golden.KubeletHead + example
			}
			if errs := accepts(t, example); len(errs) > 0 {
				t.Errorf("%s: the schema refuses\n%s: %v", page, example, errs)
			}
			if warnings, err := judged(example); err != nil || len(warnings) > 0 {
				t.Errorf("%s: the program refuses\n%s: %v, %q", page, example, err, warnings)
			}
		}
	}
	if found == 0 {
		t.Error("no examples: this test does not find them any more")
	}
}

// TestConfextExample: the file that a configuration extension brings as an example is valid.
func TestConfextExample(t *testing.T) {
	text, err := os.ReadFile("../../deploy/confext/etc/kubernetes/node-partition.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if errs := accepts(t, string(text)); len(errs) > 0 {
		t.Errorf("the schema refuses it: %v", errs)
	}
	if warnings, err := judged(string(text)); err != nil || len(warnings) > 0 {
		t.Errorf("the program refuses it: %v, %q", err, warnings)
	}
}

// dedent removes the indentation of the first line from each line.
func dedent(text string) string {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	var lines strings.Builder
	for line := range strings.Lines(text) {
		lines.WriteString(strings.TrimPrefix(line, indent))
	}
	return lines.String()
}
