package main

import (
	"encoding/json"
	"strings"
	"testing"

	"nodepartition/internal/audit"
	"nodepartition/tests/fakenode"
)

// TestAuditExit: status 1 is for findings, and 2 for a node that cannot be audited and for an
// invalid command line.
func TestAuditExit(t *testing.T) {
	t.Parallel()
	n := newNode(t, fakenode.Configuration(""))
	for args, want := range map[string]string{
		"":               "kubepods.slice does not exist",
		"--output=table": "want text or json",
		"--fast":         "not defined: -fast",
	} {
		status, stdout, stderr := n.here(append([]string{"audit"}, strings.Fields(args)...)...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, %q, %q; want %d and %q", args, status, stdout, stderr, exitUsage, want)
		}
	}
	n.Cgroup("kubepods.slice", map[string]string{"memory.max": "max"})
	if status, stdout, stderr := n.here("audit"); status != exitOK || stderr != "" || !strings.Contains(stdout, "Findings: 0,") {
		t.Errorf("status %d, %q, %q; want no finding", status, stdout, stderr)
	}
	n.Cgroup("kubepods.slice", map[string]string{"cpu.max": "1000 100000"})
	n.Systemctl("257", "", "Id=kubepods.slice\nActiveState=active\nMemoryMax=4096")
	status, stdout, stderr := n.here("audit", "--output=json")
	var r audit.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || status != exitProblem || stderr != "" || len(r.Findings) == 0 {
		t.Errorf("status %d, %q, %v:\n%s", status, stderr, err, stdout)
	}
}
