package node

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nodepartition/internal/host"
	"nodepartition/internal/membership"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/slices/decision"
)

// TestResourcesFile: what was written is read again. A later version is refused, and a node without
// resources has no file.
func TestResourcesFile(t *testing.T) {
	t.Parallel()
	n := host.Below(t.TempDir())
	path := n.Path(ResourcesFile)
	all := Resources{Node: "1", Written: map[string]int64{"a": 4000, "b": 0}, Seen: map[string]int64{"a": 4000}}
	if err := WriteResources(n, all); err == nil {
		t.Error("written without a folder")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := WriteResources(n, all); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadResources(n); err != nil || !got.Equal(all) {
			t.Errorf("%+v, %v; want %+v", got, err, all)
		}
	}
	for range 2 {
		if err := WriteResources(n, Resources{Node: "1"}); err != nil {
			t.Error(err)
		}
		if got, err := ReadResources(n); err != nil || !got.Equal(Resources{}) {
			t.Errorf("without a file: %+v, %v", got, err)
		}
	}
	for text, want := range map[string]string{`{"version":2,"written":["a"]}`: "has version 2", "{": "remove it"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadResources(n); err == nil || !strings.Contains(err.Error(), want) || len(got.Written) > 0 {
			t.Errorf("%s: %+v, %v; want %s", text, got, err, want)
		}
	}
}

// TestFollowedTypes: the types of a partition, and those whose resource is on the Node.
func TestFollowedTypes(t *testing.T) {
	t.Parallel()
	f := Followed{Decision: decision.Decision{Workloads: []membership.Workload{
		{Type: "a", Partition: "a", Advertise: true},
		{Type: "b", Partition: unitname.System, Advertise: true},
		{Type: "c", Partition: unitname.System},
	}}}
	if got := f.Advertised(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("advertised %q", got)
	}
	if got := f.Types(unitname.System); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("of the system partition %q", got)
	}
	if got := f.Types("other"); got != nil {
		t.Errorf("of another %q", got)
	}
}
