package main

import (
	"errors"
	"fmt"
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

// TestReadGuards: an entry is filled in from its comment. One of both alone is an error, and so is
// one of them twice.
func TestReadGuards(t *testing.T) {
	const f = "\t//guard: a\n\t//guard: b\n\tif bad {\n\t\treturn\n\t}\nend"
	for _, c := range []struct{ list, source, want string }{
		{"a\n+_ = bad\n\nb\n3 ./q ./r\n+one\n+two", f, "p/f.go 1 [./p] _ = bad,\t\treturn,\t},end|p/f.go 3 [./q ./r] one,two,end|"},
		{"a\n\nb\n3", f, "p/f.go 1 [./p] \t\treturn,\t},end|p/f.go 3 [./p] end|"},
		{"a", f, "error: //guard: b has no entry"},
		{"a\n\nb\n\nc", f, `error: "//guard: c": its comments are in []`},
		{"a\n\nb\n\na", f, `error: "//guard: a": its comments are in []`},
		{"a\n\nb", f + "\n//guard: b", `error: "//guard: b": its comments are in ["p/f.go" "p/f.go"]`},
	} {
		root := t.TempDir()
		for path, text := range map[string]string{guardsFile: c.list, "p/f.go": c.source} {
			path = filepath.Join(root, path)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		guards, err := readGuards(root)
		got := ""
		for _, g := range guards {
			changed := strings.ReplaceAll(g.without(c.source), "\n", ",")
			got += fmt.Sprintf("%s %d %s %s|", g.file, g.lines, g.tests, changed)
		}
		if err != nil {
			got = "error: " + err.Error()
		}
		want, failed := strings.CutPrefix(c.want, "error: ")
		if got != c.want && (!failed || !strings.Contains(got, want)) {
			t.Errorf("%q: got %q, want %q", c.list, got, c.want)
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

// TestTryGuards: an entry that does not compile is named, and the ones after it are tried.
func TestTryGuards(t *testing.T) {
	tries := map[string]func() ([]string, error){
		"broken":   func() ([]string, error) { return nil, errors.New("does not compile") },
		"noticed":  func() ([]string, error) { return []string{"TestA"}, nil },
		"survives": func() ([]string, error) { return nil, nil },
	}
	try := func(g guard) ([]string, error) { return tries[g.name]() }
	for _, c := range []struct {
		names string
		all   bool
		want  []string
	}{
		{"noticed noticed", true, []string{"2 guards, 0 survived, 0 errors"}},
		{"survives noticed", false, []string{"survives: SURVIVED", "noticed: noticed by TestA", "2 guards, 1 survived, 0 errors"}},
		{"broken noticed", false, []string{"broken: ERROR: does not compile", "noticed: noticed by TestA", "2 guards, 0 survived, 1 errors"}},
	} {
		var guards []guard
		for name := range strings.FieldsSeq(c.names) {
			guards = append(guards, guard{name: name, file: "f.go", tests: []string{"./p"}})
		}
		var out strings.Builder
		if all := tryGuards(t.Context(), &out, guards, try); all != c.all {
			t.Errorf("%s: %v; want %v", c.names, all, c.all)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %q; want %q in it", c.names, out.String(), want)
			}
		}
	}
}
