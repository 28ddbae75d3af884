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

func TestParseTarget(t *testing.T) {
	got, err := parseTarget("./:main.go")
	if err != nil || got.pkg != "." || !slices.Equal(got.skip, []string{"main_test.go"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, text := range []string{"nowhere", ".:nothing.go"} {
		if got, err := parseTarget(text); err == nil {
			t.Errorf("%s: got %+v, want an error", text, got)
		}
	}
}
