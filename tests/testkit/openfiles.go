package testkit

import (
	"os"
	"strings"
	"testing"
)

// OpenBelow returns the paths of the open files below a folder, which no other test uses: tests run
// in parallel. A removed file is among them.
func OpenBelow(t *testing.T, folder string) (paths []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if path, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && strings.HasPrefix(path, folder+"/") {
			paths = append(paths, path)
		}
	}
	return paths
}
