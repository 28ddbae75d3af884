package main

import (
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// TestLong: each line of tests/long names a test that exists. A test under another name would run
// in make test again.
func TestLong(t *testing.T) {
	data, err := os.ReadFile("../long")
	if err != nil {
		t.Fatal(err)
	}
	sources, err := exec.CommandContext(t.Context(), "grep", "-rhoE", "--include=*_test.go", "^func Test[A-Za-z0-9]+", "..").Output()
	if err != nil {
		t.Fatal(err)
	}
	tests := strings.Fields(strings.ReplaceAll(string(sources), "func ", ""))
	for line := range strings.Lines(string(data)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), "/")
		if !strings.HasPrefix(name, "Test") {
			continue
		}
		if !slices.ContainsFunc(tests, func(test string) bool {
			matches, err := path.Match(name, test)
			return err == nil && matches
		}) {
			t.Errorf("tests/long: no test has the name %s", name)
		}
	}
}
