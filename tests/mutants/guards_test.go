package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGuards: each listed guard is in its file, and its packages exist. "make guards" runs them.
func TestGuards(t *testing.T) {
	guards, err := readGuards("guards")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, g := range guards {
		if names[g.name] {
			t.Errorf("%s is there twice", g.name)
		}
		names[g.name] = true
		source, err := os.ReadFile(filepath.Join("../..", g.file))
		if err != nil {
			t.Errorf("%s: %v", g.name, err)
			continue
		}
		if _, err := g.without(string(source)); err != nil {
			t.Error(err)
		}
		for _, pkg := range g.tests {
			if tests, err := filepath.Glob(filepath.Join("../..", pkg, "*_test.go")); err != nil || len(tests) == 0 {
				t.Errorf("%s: %s has no tests, %v", g.name, pkg, err)
			}
		}
	}
}

func TestWithout(t *testing.T) {
	g := guard{name: "g", file: "f.go", old: []string{"if bad {", "return", "}"}, new: []string{"_ = bad"}}
	got, err := g.without("a\n\t\tif bad {\n\t\t\treturn\n\t\t}\nb")
	if err != nil || got != "a\n_ = bad\nb" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, source := range []string{"", "a\nb", "if bad {\nreturn\n}\nif bad {\nreturn\n}"} {
		if got, err := g.without(source); err == nil || !strings.Contains(err.Error(), "f.go") {
			t.Errorf("%q: got %q, %v; want an error", source, got, err)
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

func TestReadGuardsBroken(t *testing.T) {
	for _, text := range []string{"name", "name\nfile ./pkg", "name\nfile\n-a", "name\nfile ./pkg\na", "name\n \n-a"} {
		path := filepath.Join(t.TempDir(), "guards")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := readGuards(path); err == nil {
			t.Errorf("%q: got %+v, want an error", text, got)
		}
	}
}
