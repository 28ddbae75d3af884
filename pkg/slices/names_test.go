package slices

import (
	"os"
	"strings"
	"testing"

	"github.com/coreos/go-systemd/v22/unit"
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

// TestMonitorAfterRuntimes: the monitor, and so the kubelet, waits for runtimes that have NRI. A
// dockerd that hangs would hold up a kubelet that does not use it.
func TestMonitorAfterRuntimes(t *testing.T) {
	const path = "../../units/partition-monitor.service"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	options, err := unit.DeserializeOptions(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	after := ""
	for _, o := range options {
		if o.Name == "After" {
			after += " " + o.Value
		}
	}
	if !strings.Contains(after, " containerd.service crio.service") || strings.Contains(after, "docker") {
		t.Errorf("%s: After=%s", path, after)
	}
}
