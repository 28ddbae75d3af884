package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/state"
)

// check runs check, and expects an exit status and parts of the output.
func (n *fakeNode) check(t *testing.T, status int, want []string, args ...string) {
	t.Helper()
	got, stdout, stderr := n.here(append([]string{"check", "-v"}, args...)...)
	if got != status || stderr != "" {
		t.Errorf("status %d, %q; want %d", got, stderr, status)
	}
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	for _, line := range lines[:len(lines)-1] {
		grade, _, _ := strings.Cut(line, " ")
		if grade != "" && grade != "ok" && grade != "warning" && grade != "error" && grade != "ignored" {
			t.Errorf("a line that begins neither with a grade nor with a space: %q", line)
		}
	}
	for _, part := range want {
		if !strings.Contains(stdout, part) {
			t.Errorf("want %q in\n%s", part, stdout)
		}
	}
	if errors := strings.Count(stdout, "\nerror "); (errors > 0 || strings.HasPrefix(stdout, "error")) != (status == exitProblem) {
		t.Errorf("status %d with\n%s", status, stdout)
	}
}

// TestCheckExit: status 1 is for an error that counts.
func TestCheckExit(t *testing.T) {
	t.Parallel()
	n := whole(t)
	n.Partition("max")
	n.check(t, exitProblem, []string{"error    slice: kubepods-system.slice: memory.max is max"}, "--listen=")
	n.check(t, exitOK, []string{"ignored  slice: kubepods-system.slice: memory.max is max", "ignored  service: "}, "--listen=", "--ignore=slice", "--ignore=service")
	n.check(t, exitOK, []string{"ignored  slice: "}, "--listen=", "--ignore=slice,service")
	status, stdout, stderr := n.here("check", "--listen=", "--ignore=slices")
	if status != exitUsage || stdout != "" || !strings.Contains(stderr, "--ignore=slices: want configuration, trial, kubelet, ") {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	status, stdout, stderr = n.here("check", "--listen=", "-o", "json")
	var got state.Findings
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != exitProblem || stderr != "" {
		t.Errorf("status %d, %q, %v:\n%s", status, stderr, err, stdout)
	}
	i := slices.IndexFunc(got.Findings, func(f state.Finding) bool { return f.Check == "slice" })
	if i < 0 || got.Findings[i].Grade != state.Error || got.Findings[i].Change == "" || got.Findings[i].Docs == "" || !slices.ContainsFunc(got.Findings, func(f state.Finding) bool { return len(f.Looked) > 0 }) {
		t.Errorf("%+v", got.Findings)
	}
}
