package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestExplained: a mutant whose line is gone no longer needs a reason.
func TestExplained(t *testing.T) {
	known, err := readExplained("explained")
	if err != nil {
		t.Fatal(err)
	}
	for key := range known {
		part := strings.SplitN(key, "|", 3)
		data, err := os.ReadFile(filepath.Join("../..", part[0]))
		if err != nil || !slices.ContainsFunc(strings.Split(string(data), "\n"), func(line string) bool { return strings.TrimSpace(line) == part[2] }) {
			t.Errorf("%s has no line %q, %v; remove it from explained, or write it as it is now", part[0], part[2], err)
		}
	}
}

// TestPackages: make mutants finds what tests/mutants/packages lists.
func TestPackages(t *testing.T) {
	data, err := os.ReadFile("packages")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("../..")
	for line := range strings.Lines(string(data)) {
		if _, err := parseTarget(strings.TrimSpace(line)); err != nil && !strings.HasPrefix(line, "#") {
			t.Error(err)
		}
	}
}
