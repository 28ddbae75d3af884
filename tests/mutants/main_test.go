package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
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

// TestReport: a survivor counts whether the tests reach it or not. A mutant that does not compile
// does not count.
func TestReport(t *testing.T) {
	times := func(n int, m mutant) []mutant { return slices.Repeat([]mutant{m}, n) }
	killed, lived, hidden := mutant{Status: "KILLED", covered: true}, mutant{Status: "LIVED", covered: true}, mutant{Status: "LIVED"}
	notViable, timedOut := mutant{Status: "NOT VIABLE"}, mutant{Status: "TIMED OUT"}
	for name, test := range map[string]struct {
		mutants []mutant
		enough  bool
	}{
		"enough":              {slices.Concat(times(19, killed), times(1, lived)), true},
		"one too many":        {slices.Concat(times(18, killed), times(1, lived)), false},
		"not covered":         {slices.Concat(times(18, killed), times(1, hidden)), false},
		"did not end":         {slices.Concat(times(18, killed), times(1, timedOut), times(1, lived)), true},
		"does not compile":    {slices.Concat(times(18, killed), times(1, notViable), times(1, lived)), false},
		"nothing to be wrong": {nil, true},
	} {
		if got := report(target{pkg: "p"}, test.mutants, nil, 95, time.Second); got != test.enough {
			t.Errorf("%s: %t, want %t", name, got, test.enough)
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

func TestParseTarget(t *testing.T) {
	got, err := parseTarget("./:main.go")
	if err != nil || got.pkg != "." || !slices.Equal(got.skip, []string{"guards.go", "guards_test.go", "main_test.go"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, text := range []string{"nowhere", ".:nothing.go"} {
		if got, err := parseTarget(text); err == nil {
			t.Errorf("%s: got %+v, want an error", text, got)
		}
	}
}

// TestFirstFailure: the tests are ended once, wherever the line is cut. They are not ended for a
// subtest: its test fails after it.
func TestFirstFailure(t *testing.T) {
	for name, test := range map[string]struct {
		output []string
		found  int
	}{
		"passed":         {[]string{"=== RUN   TestA\n--- PASS: TestA (0.00s)\n", "PASS\n"}, 0},
		"failed":         {[]string{"=== RUN   TestA\n--- FAIL: TestA (0.00s)\n", "--- FAIL: TestB (0.00s)\n", "FAIL\n"}, 1},
		"cut":            {[]string{"=== RUN   TestA\n--- FA", "IL: TestA (0.00s)\n"}, 1},
		"part":           {[]string{"=== RUN   TestA\n    --- FAIL: TestA/b (0.00s)\n"}, 0},
		"logged":         {[]string{"=== RUN   TestA\n    a_test.go:1: --- FAIL: TestA\n"}, 0},
		"does not build": {[]string{"FAIL\tp [build failed]\n"}, 0},
	} {
		found := 0
		output := firstFailure{found: func() { found++ }}
		for _, text := range test.output {
			if n, err := output.Write([]byte(text)); n != len(text) || err != nil {
				t.Fatal(n, err)
			}
		}
		if found != test.found || output.failed != (test.found > 0) {
			t.Errorf("%s: found %d times, want %d", name, found, test.found)
		}
	}
}
