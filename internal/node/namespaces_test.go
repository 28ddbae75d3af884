package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/partition"
)

// TestReadNamespaces: a file of a later version is refused with its name, and knows no namespace.
// A file without times, of a program that wrote none, gives no right.
func TestReadNamespaces(t *testing.T) {
	t.Parallel()
	n := host.Below(t.TempDir())
	path := n.Path(NamespacesFile)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	heard := time.Now().UTC().Format(time.RFC3339)
	for name, test := range map[string]struct {
		text, err string
		want      partition.Refusal
	}{
		"read":            {`{"version":1,"namespaces":{"a":{"types":["t"],"heard":"` + heard + `"}}}`, "", ""},
		"a later version": {`{"version":2,"namespaces":["a"]}`, "has version 2", partition.NamespaceUnknown},
		"without a time":  {`{"version":1,"namespaces":{"a":{"types":["t"]}}}`, "", partition.NamespaceUnknown},
		"forbidden":       {`{"version":1,"namespaces":{"a":{"why":"forbidden"}}}`, "", partition.Forbidden},
		"broken":          {`{"version":1,`, "remove it", partition.NamespaceUnknown},
	} {
		if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadNamespaces(n)
		if (err == nil) != (test.err == "") || err != nil && (!strings.Contains(err.Error(), test.err) || !strings.Contains(err.Error(), path)) {
			t.Errorf("%s: %v; want %q", name, err, test.err)
		}
		if got := AllowedByFile(n)("a", "t"); got != test.want {
			t.Errorf("%s: %q; want %q", name, got, test.want)
		}
	}
	if err := os.Remove(path); !errors.Is(err, nil) {
		t.Fatal(err)
	}
	if all, err := ReadNamespaces(n); err != nil || len(all.Known) > 0 {
		t.Errorf("without a file: %+v, %v", all, err)
	}
}
