package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/generator"
)

func runWith(t *testing.T, env map[string]string, args ...string) (status int, stdout, messages string) {
	t.Helper()
	var out, log bytes.Buffer
	status = run(args, func(key string) string { return env[key] }, &out, generator.NewLog(&log))
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

// TestInitrd: the initrd has another root and no kubelet, so the generator writes nothing.
func TestInitrd(t *testing.T) {
	root := t.TempDir()
	status, _, messages := runWith(t, map[string]string{"SYSTEMD_IN_INITRD": "1", "PARTITION_ROOT": root}, filepath.Join(root, "out"))
	entries, err := os.ReadDir(root)
	if status != 0 || messages != "" || err != nil || len(entries) > 0 {
		t.Errorf("status %d, %q, %d files, %v; want nothing at all", status, messages, len(entries), err)
	}
}
