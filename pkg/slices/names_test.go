package slices

import (
	"os"
	"strings"
	"testing"
)

// TestKubeletServicesMerged: after a merge of the system extension, the partition is started before
// the same services. Its unit is not generated, because it is there before the generator has run.
func TestKubeletServicesMerged(t *testing.T) {
	const unit = "../../deploy/sysext/partition-merged@.service"
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	if line := "\nBefore=" + strings.Join(kubeletServices, " ") + "\n"; !strings.Contains(string(text), line) {
		t.Errorf("%s: want the line %q", unit, line)
	}
}
