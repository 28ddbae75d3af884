package main

import (
	"os"
	"strings"
	"testing"

	"nodepartition/pkg/podmove"
)

// TestReasonsAreDocumented: each reason for a misplaced pod has a row in the troubleshooting page.
func TestReasonsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n### Reasons\n")
	if !ok {
		t.Fatal("docs/troubleshooting.md has no section Reasons, which metrics.md leads to")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[podmove.Reason]bool{}
	for line := range strings.Lines(section) {
		if reason, _, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` | "); ok {
			rows[podmove.Reason(reason)] = true
		}
	}
	for _, reason := range podmove.Reasons() {
		if !rows[reason] {
			t.Errorf("docs/troubleshooting.md does not have the reason %s", reason)
		}
		delete(rows, reason)
	}
	for reason := range rows {
		t.Errorf("docs/troubleshooting.md has the reason %s, which does not exist", reason)
	}
}
