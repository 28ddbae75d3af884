package status

import (
	"os"
	"path/filepath"
	"testing"

	"node-partition.io/node-partition/internal/host"
)

// TestRecordedNames: a bundle is of somebody else, and what it calls a partition reaches a terminal
// only if it is a name.
func TestRecordedNames(t *testing.T) {
	for name, want := range map[string]bool{"batch": true, `s\u001b]0;owned\u0007`: false} {
		dir := t.TempDir()
		text := `{"time": "2026-11-29T06:00:00Z", "partitions": [{"name": "` + name + `"}]}`
		if err := os.WriteFile(filepath.Join(dir, File), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		n, err := host.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := recorded(n); ok != want {
			t.Errorf("%s: shown: %t; want %t", name, ok, want)
		}
	}
}
