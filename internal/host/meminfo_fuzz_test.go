package host

import (
	"path/filepath"
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/testkit"
)

// FuzzTotal: the memory of a node is a number of whole kibibytes, or an error names the file.
func FuzzTotal(f *testing.F) {
	f.Add("MemTotal:       16384 kB\nMemFree: 1 kB\n")
	f.Add("MemTotal: 9223372036854775807 kB")
	f.Add("MemTotal:kB")
	f.Fuzz(func(t *testing.T, text string) {
		root := t.TempDir()
		testkit.WriteFile(t, filepath.Join(root, meminfoPath), text)
		bytes, err := MemoryTotal(Root(root))
		switch {
		case err != nil && (bytes != 0 || !strings.Contains(err.Error(), meminfoPath)):
			t.Errorf("%d, %v", bytes, err)
		case err == nil && (bytes < 0 || bytes%1024 != 0):
			t.Errorf("%d bytes", bytes)
		}
	})
}
