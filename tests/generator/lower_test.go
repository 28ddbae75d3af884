package generator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/generator/golden"
)

// TestLoweredLimit follows a limit that was lowered below the partition's usage. It reaches the
// unit once usage has fallen or the kernel has the limit already, and at once if the monitor has
// ended or does not evict.
func TestLoweredLimit(t *testing.T) {
	const (
		lowered = "107-limit-lowered-below-usage"
		whole   = "108-limit-lowered-without-monitor" // the same configuration
		slice   = "sys/fs/cgroup/kubepods.slice/kubepods-system.slice/"
		events  = "sys/fs/cgroup/system.slice/partition-monitor.service/cgroup.events"
	)
	for name, files := range map[string]map[string]string{
		// The limit itself, some of it page cache.
		"usage has fallen":       {slice + "memory.current": "536870912\n"},
		"the monitor has ended":  {events: "populated 0\nfrozen 0\n"},
		"no eviction":            {"run/node-partition/monitor/evicts": ""},
		"the limit is there now": {slice + "memory.max": "536870912\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := newRoot(t, lowered)
			if first := run(t, root); !strings.Contains(first.Messages, "keeping the present limit") {
				t.Fatalf("nothing is deferred: %q", first.Messages)
			}
			for file, content := range files {
				err := os.Remove(filepath.Join(root, file))
				if content != "" {
					err = os.WriteFile(filepath.Join(root, file), []byte(content), 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			golden.Flush(t, root)
			golden.Compare(t, named(t, whole).Want, run(t, root))
		})
	}
}
