package imports

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMapHasEachPackage: docs/architecture.md names each package of the programs.
func TestMapHasEachPackage(t *testing.T) {
	t.Parallel()
	lookAtSources(t)
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "list", "node-partition.io/node-partition/cmd/...", "node-partition.io/node-partition/internal/...", "node-partition.io/node-partition/pkg/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		name := strings.TrimPrefix(path, "node-partition.io/node-partition/")
		if !strings.Contains(string(page), "\n| `"+name+"`") && !strings.Contains(string(page), ", `"+name+"`") {
			t.Errorf("docs/architecture.md does not have the package %s", name)
		}
	}
}
