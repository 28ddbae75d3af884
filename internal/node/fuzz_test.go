package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nodepartition/internal/statefile"
	"nodepartition/pkg/slices/config"
)

// FuzzMembers: members of an earlier configuration are either refused, with an error that names the
// file, or name the namespaces that their partitions need, and are the same after they were written
// again.
func FuzzMembers(f *testing.F) {
	f.Add(`{"namespaces":["kube-system"],"eviction":{"limit":1},"identity":"a","over":"b"}`)
	f.Add(`{"namespaces":[]}`)
	f.Add(`{"version":1,"partitions":[{"name":"system","namespaces":["a"]}]}`)
	f.Add(`{"version":1,"partitions":[{"name":"batch","namespaces":[]}]}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "members.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := readMembers(path)
		if err != nil {
			if !strings.Contains(err.Error(), path) {
				t.Errorf("%v does not name the file", err)
			}
			return
		}
		for _, p := range m.Partitions {
			if len(p.Namespaces) == 0 && !config.MayBeEmpty(p.Name) || p.Name.Check() != nil {
				t.Errorf("partition %q with the namespaces %q", p.Name, p.Namespaces)
			}
		}
		if err := statefile.Write(path, m, 0o600); err != nil {
			t.Fatal(err)
		}
		if again, err := readMembers(path); err != nil || !again.equal(m) || again.Identity != m.Identity || again.Over != m.Over {
			t.Errorf("%+v was read as %+v, %v", m, again, err)
		}
	})
}
