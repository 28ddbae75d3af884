package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func runWith(t *testing.T, env map[string]string, args ...string) (status int, stdout, messages string) {
	t.Helper()
	var out, log bytes.Buffer
	status = run(args, func(key string) string { return env[key] }, &out, &logger{out: &log})
	return status, out.String(), log.String()
}

func TestArguments(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		args             []string
		status           int
		stdout, messages string
	}{
		{[]string{"--version"}, 0, "partition-generator unknown\n", ""},
		{[]string{"--help"}, 0, usage, ""},
		{nil, 2, "", "want the absolute path"},
		{[]string{"relative"}, 2, "", "want the absolute path"},
		{[]string{dir, dir}, 2, "", "want the absolute path"},
		{[]string{"--unknown"}, 2, "", "want the absolute path"},
		{[]string{dir, dir, dir, dir}, 2, "", "want the absolute path"},
	} {
		status, stdout, messages := runWith(t, nil, test.args...)
		if status != test.status || stdout != test.stdout || !strings.Contains(messages, test.messages) || strings.Count(messages, "\n") > 1 {
			t.Errorf("%q: status %d, %q, %q; want %d, %q, %q", test.args, status, stdout, messages, test.status, test.stdout, test.messages)
		}
	}
}

// TestInitrd: in the initrd the root is another one, and there is no kubelet.
func TestInitrd(t *testing.T) {
	root := t.TempDir()
	status, _, messages := runWith(t, map[string]string{"SYSTEMD_IN_INITRD": "1", "PARTITION_ROOT": root}, filepath.Join(root, "out"))
	entries, err := os.ReadDir(root)
	if status != 0 || messages != "" || err != nil || len(entries) > 0 {
		t.Errorf("status %d, %q, %d files, %v; want nothing at all", status, messages, len(entries), err)
	}
}

// TestKernelLog: one record for each message, of the facility of daemons, so that journald does not take it for the
// kernel's own; not more of them than the kernel takes.
func TestKernelLog(t *testing.T) {
	var records recorder
	log := &logger{out: &records, kernel: true}
	log.errorf("a\nb\x1b[31m%s", strings.Repeat("x", 2000))
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

// recorder keeps what each write(2) would have been.
type recorder []string

func (r *recorder) Write(p []byte) (int, error) {
	*r = append(*r, string(p))
	return len(p), nil
}
