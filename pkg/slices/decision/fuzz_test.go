package decision

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzRead: a decision is either refused, with an error that names the file and what writes it
// again, or is the same after it was written again.
func FuzzRead(f *testing.F) {
	f.Add(`{"version":1,"identity":"a","partitions":[{"name":"system","namespaces":["kube-system"],"eviction":{"limit":1,"hard":1},"deferral":{"limit":1,"inForce":2}}]}`)
	f.Add(`null`)
	f.Add(`{"identity":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		root := t.TempDir()
		path := filepath.Join(root, generatorDir, FileName)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write := func(text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(text)
		d, err := Read(root)
		if err != nil {
			if d != nil || !strings.Contains(err.Error(), FileName) || !strings.Contains(err.Error(), "daemon-reload") {
				t.Errorf("%+v, %v", d, err)
			}
			return
		}
		again, err := d.Text()
		if err != nil {
			t.Fatal(err)
		}
		write(again)
		second, err := Read(root)
		if err != nil {
			t.Fatalf("%s cannot be read again: %v", again, err)
		}
		if text, err := second.Text(); err != nil || text != again {
			t.Errorf("%s was read as %s, %v", again, text, err)
		}
	})
}
