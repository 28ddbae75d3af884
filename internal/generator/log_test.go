package generator

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestLogKernel: each message is one record, of the facility of daemons, so that journald does not
// take it for the kernel's own. There are no more records than the kernel takes.
func TestLogKernel(t *testing.T) {
	var records recorder
	log := &Log{out: &records, kernel: true}
	log.Errorf("a\nb\x1b[31m%s", strings.Repeat("x", 2000))
	log.all(levelWarning, make([]string, 20))
	if len(records) > 10 {
		t.Fatalf("%d records, the kernel takes 10", len(records))
	}
	want := fmt.Sprintf("<27>partition-generator[%d]: a?b?[31mxxx", os.Getpid())
	if first := records[0]; !strings.HasPrefix(first, want) || len(first) > 976 || strings.Count(first, "\n") != 1 || !strings.HasSuffix(first, "...\n") {
		t.Errorf("first record of %d bytes: %q", len(first), first)
	}
	if last := records[len(records)-1]; !strings.HasSuffix(last, "and 13 more of these\n") || !strings.HasPrefix(last, "<28>") {
		t.Errorf("last record %q", last)
	}
}

// recorder keeps the bytes of each write(2).
type recorder []string

func (r *recorder) Write(p []byte) (int, error) {
	*r = append(*r, string(p))
	return len(p), nil
}
