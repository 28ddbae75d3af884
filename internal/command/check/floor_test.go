package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/host"
)

func TestRecursive(t *testing.T) {
	t.Parallel()
	const tmpfs = "tmpfs /run tmpfs rw,nosuid 0 0\n"
	for mounts, want := range map[string]bool{
		tmpfs + "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate,memory_recursiveprot 0 0\n": true,
		tmpfs + "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate 0 0\n":                      false,
		tmpfs + "cgroup2 /sys/fs/cgroup cgroup2\n":                                                                     true,
		tmpfs: true,
	} {
		if got := recursive(mounts); got != want {
			t.Errorf("%q: %t, want %t", mounts, got, want)
		}
	}
}

// TestGenerations: the lowest bit is the main switch. A file of sysfs has the size of a page.
func TestGenerations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"0x0007": true, "0x0001": true, "0x0000": false, "0x0006": false, "": false, "y": false} {
		root := t.TempDir()
		path := filepath.Join(root, generationsPath)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		page := text + strings.Repeat("\n", 4096-len(text))
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := generations(host.Root(root)); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
	if generations(host.Root(t.TempDir())) {
		t.Error("a kernel without the switch has it on")
	}
}
