package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// TestReasonsAreDocumented: each reason for a misplaced pod has a row in the page about placement.
func TestReasonsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/troubleshooting/placement.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## Reasons\n")
	if !ok {
		t.Fatal("docs/troubleshooting/placement.md has no section Reasons, which metrics.md leads to")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[report.Reason]bool{}
	for line := range strings.Lines(section) {
		if reason, _, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` | "); ok {
			rows[report.Reason(reason)] = true
		}
	}
	for _, reason := range report.Reasons() {
		if !rows[reason] {
			t.Errorf("docs/troubleshooting/placement.md does not have the reason %s", reason)
		}
		delete(rows, reason)
	}
	for reason := range rows {
		t.Errorf("docs/troubleshooting/placement.md has the reason %s, which does not exist", reason)
	}
}

// TestExample: the section of the README is docs/example.yaml, and has no warning on a node of the
// size that the README names.
func TestExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("../../docs/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	indented := "   " + strings.ReplaceAll(strings.TrimSuffix(string(example), "\n"), "\n", "\n   ")
	_, capacity, named := strings.Cut(string(text), "validate FILE --capacity ")
	if !strings.Contains(string(text), "   ```yaml\n"+indented+"\n   ```\n") || !named {
		t.Fatal("README.md does not have docs/example.yaml, or no command that judges it")
	}
	var stdout, stderr bytes.Buffer
	app := newApp(host.Below(t.TempDir()), &stdout, &stderr)
	app.Reader = bytes.NewReader(example)
	capacity, _, _ = strings.Cut(capacity, "`")
	if err := runApp(t, app, "validate", "--strict", "--capacity="+capacity, "-"); err != nil || !strings.Contains(stdout.String(), "ok        left for user pods: ") {
		t.Errorf("%v\n%s%s", err, &stdout, &stderr)
	}
}
