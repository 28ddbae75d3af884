package main

import (
	"os"
	"path"
	"path/filepath"
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
	var tests []string
	for _, folder := range []string{"lab", "e2e", "e2e/kubeapi", "../rollout/apitest"} {
		files, err := filepath.Glob("../" + folder + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		names, err := testsIn(files)
		if err != nil {
			t.Fatal(err)
		}
		tests = append(tests, names...)
	}
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
