package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzTotal: the memory of a node is a number of whole kibibytes, or an error names the file.
func FuzzTotal(f *testing.F) {
	f.Add("MemTotal:       16384 kB\nMemFree: 1 kB\n")
	f.Add("MemTotal: 9223372036854775807 kB")
	f.Add("MemTotal:kB")
	f.Fuzz(func(t *testing.T, text string) {
		root := t.TempDir()
		file := filepath.Join(root, meminfoPath)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		bytes, err := MemoryTotal(Root(root))
		switch {
		case err != nil && (bytes != 0 || !strings.Contains(err.Error(), meminfoPath)):
			t.Errorf("%d, %v", bytes, err)
		case err == nil && (bytes < 0 || bytes%1024 != 0):
			t.Errorf("%d bytes", bytes)
		}
	})
}
