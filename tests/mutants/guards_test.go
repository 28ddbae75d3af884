package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGuards: each guard has an entry and a comment, its packages exist, and the source is Go
// without it. "make guards" runs them.
func TestGuards(t *testing.T) {
	guards, err := readGuards("../..")
	if err != nil {
		t.Error(err)
	}
	for _, g := range guards {
		source, err := os.ReadFile(filepath.Join("../..", g.file))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.ParseFile(token.NewFileSet(), g.file, g.without(string(source)), 0); err != nil {
			t.Errorf("%q: without its %d lines: %v", g.name, g.lines, err)
		}
		for _, pkg := range g.tests {
			if tests, err := filepath.Glob(filepath.Join("../..", pkg, "*_test.go")); err != nil || len(tests) == 0 {
				t.Errorf("%s: %s has no tests, %v", g.name, pkg, err)
			}
		}
	}
}

// TestVerdict: a failed test and a panic of one notice. Another end of the tests is an error of the
// entry.
func TestVerdict(t *testing.T) {
	for output, want := range map[string]string{
		"--- FAIL: TestA (0.00s)\n    a_test.go:1: b\n--- FAIL: TestB (0.00s)\nFAIL\n":                    "TestA TestB",
		"--- FAIL: TestA (0.00s)\npanic: runtime error [recovered]\nFAIL\tp\t1s\n":                        "TestA",
		"=== RUN TestA\npanic: runtime error\nFAIL\n":                                                     "tests that panicked",
		"--- FAIL: TestA (0.00s)\n    a_test.go:1: no [build failed]\nFAIL\tp\t1s\n":                      "TestA",
		"--- FAIL: TestA (0.00s)\nFAIL\tp\t1s\npanic: test timed out after 5m0s\nFAIL\tq\t300s\n":         "TestA",
		"ok \ta\t1s\npanic: test timed out after 5m0s\nFAIL\tp\t300s\n":                                   "error: did not end",
		"# p\na.go:1: undefined: b\nFAIL\tp [build failed]\nFAIL\n":                                       "error: does not compile",
		"# p\na.go:1: undefined: b\nFAIL\tp [build failed]\n--- FAIL: TestA (0.00s)\nFAIL\tq\t1s\nFAIL\n": "error: does not compile",
		"FAIL\tp [setup failed]\nFAIL\n":                                                                  "error: does not compile",
		"FAIL\tp\t1s\nFAIL\n":                                                                             "error: no test failed",
	} {
		killers, err := verdict(output)
		got := strings.Join(killers, " ")
		if err != nil {
			got += "error: " + err.Error()
		}
		if got != want && (err == nil || !strings.HasPrefix(got, want)) {
			t.Errorf("%q: %q; want %q", output, got, want)
		}
	}
}
