package generator

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/tests/generator/golden"
	"node-partition.io/node-partition/tests/testkit"
)

const (
	overridePath     = "etc/kubernetes/node-partition.yaml"
	percentageConfig = kubeletHead + "systemPartition: {memoryLimit: 25%, cpuset: \"0-1\", namespaces: [kube-system]}\n"
)

// write writes a file of the node at root.
func write(t *testing.T, root, name, content string) {
	t.Helper()
	testkit.WriteFile(t, filepath.Join(root, name), content)
}

// limit runs the generator on a node with so much memory, and returns the limit that it writes.
func limit(t *testing.T, root string, memoryMiB int) string {
	t.Helper()
	write(t, root, "proc/meminfo", fmt.Sprintf("MemTotal: %d kB\n", memoryMiB<<10))
	golden.Flush(t, root)
	got := golden.Run(t, root, inProcess)
	if got.Status != 0 {
		t.Fatalf("%s", got.Messages)
	}
	_, after, _ := strings.Cut(got.Units["kubepods-system.slice"], "MemoryMax=")
	value, _, _ := strings.Cut(after, "\n")
	return value
}

// TestPercentageIsFixedForTheBoot: memory that is added or taken away counts from the next boot,
// whatever happens to the section in between.
func TestPercentageIsFixedForTheBoot(t *testing.T) {
	t.Parallel()
	root := newRoot(t, "01-kubeadm")
	configure(t, root, kubeletHead)
	file := filepath.Join(root, config.MemoryFile)
	write(t, root, overridePath, goodConfig)
	if got := limit(t, root, 4096); got != "1073741824" {
		t.Fatalf("a quantity is %s", got)
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%v; want no file without a share", err)
	}
	write(t, root, overridePath, percentageConfig)
	for _, memory := range []int{2048, 8192, 1024} {
		if got := limit(t, root, memory); got != "536870912" {
			t.Errorf("with %d MiB the limit is %s", memory, got)
		}
	}
	// Off and on again.
	write(t, root, overridePath, kubeletHead+"systemPartition: {}\n")
	if got := limit(t, root, 8192); got != "" {
		t.Errorf("switched off it is %s", got)
	}
	write(t, root, overridePath, percentageConfig)
	if got := limit(t, root, 8192); got != "536870912" {
		t.Errorf("switched on again the limit is %s", got)
	}
	// A limit in bytes may use the memory that was added.
	write(t, root, overridePath, strings.ReplaceAll(percentageConfig, "25%", "6Gi"))
	if got := limit(t, root, 8192); got != "6442450944" {
		t.Errorf("a quantity above the memory of the boot is %s", got)
	}
	// A reboot empties /run.
	if err := os.RemoveAll(filepath.Join(root, config.StateDir)); err != nil {
		t.Fatal(err)
	}
	write(t, root, overridePath, percentageConfig)
	if got := limit(t, root, 8192); got != "2147483648" {
		t.Errorf("after a reboot the limit is %s", got)
	}
}

// TestKilledWithAShare: the limit that systemd has seen stays, wherever the first run was killed.
func TestKilledWithAShare(t *testing.T) {
	t.Parallel()
	killed := atEachPoint(func(at point) bool {
		root := newRoot(t, "01-kubeadm")
		write(t, root, overridePath, percentageConfig)
		write(t, root, "proc/meminfo", "MemTotal: 2097152 kB\n")
		if !runKilled(t, root, at) {
			return false
		}
		seen := golden.ReadUnits(t, root)["kubepods-system.slice"]
		next := limit(t, root, 4096)
		if next != "1073741824" && next != "536870912" || seen != "" && next != "536870912" {
			t.Errorf("%s: %q, and then %s", at, seen, next)
		}
		if again := limit(t, root, 8192); again != next {
			t.Errorf("%s: %s, and then %s", at, next, again)
		}
		return true
	})
	if killed < 20 {
		t.Errorf("killed at %d points: too few to show anything", killed)
	}
}
