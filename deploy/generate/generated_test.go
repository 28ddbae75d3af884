package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGeneratedFilesAreCurrent: the files in the tree are up to date with their source.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	t.Parallel()
	files, err := generated(deploy)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(deploy, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("deploy/%s is not what is generated: make generate writes it", name)
		}
	}
}

// TestAddress: one address leads to the runbooks from alerts, their tests and the dashboard.
// Packages and chart have it, too.
func TestAddress(t *testing.T) {
	before, err := generated(deploy)
	if err != nil {
		t.Fatal(err)
	}
	const ours = "https://wiki.example.org/x"
	old := docsURL()
	for _, name := range []string{packagesFile, chartFile} {
		if !strings.HasPrefix(old, address) || bytes.Count(before[name], []byte(": "+address+"\n")) != 1 {
			t.Errorf("deploy/%s does not have %s", name, address)
		}
	}
	t.Setenv("DOCS_URL", ours)
	after, err := generated(deploy)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range after {
		if links := bytes.Count(before[name], []byte(old)); bytes.Contains(data, []byte(old)) || bytes.Count(data, []byte(ours)) != links {
			t.Errorf("deploy/%s: %d links to %s, want %d", name, bytes.Count(data, []byte(ours)), ours, links)
		}
	}
	for _, name := range []string{alertsFile, resourceFile, dashboardFile, "prometheus/tests/alerts.yaml"} {
		if !bytes.Contains(after[name], []byte(ours)) {
			t.Errorf("deploy/%s does not lead to %s", name, ours)
		}
	}
}
