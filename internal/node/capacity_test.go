package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/tests/testkit"
)

// TestReadCapacity: the CPUs that run, MemTotal in KiB, and the huge pages of each size.
func TestReadCapacity(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"/sys/devices/system/cpu/online": "0-2,4\n",
		"/proc/meminfo":                  "MemTotal:       16384000 kB\nMemFree: 1 kB\n",
		"/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages":    "512\n",
		"/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0\n",
		"/var/lib/kubelet/config.yaml":                              "",
	}
	dir := t.TempDir()
	testkit.WriteFiles(t, dir, files)
	c, err := ReadCapacity(host.Below(dir), "/var/lib/kubelet")
	if err != nil {
		t.Fatal(err)
	}
	small, large := c.Resources["hugepages-2Mi"], c.Resources["hugepages-1Gi"]
	if c.CPUs.String() != "0-2,4" || c.Resources.Cpu().MilliValue() != 4000 || c.Resources.Memory().Value() != 16384000<<10 ||
		small.Value() != 1<<30 || large.Value() != 0 || c.Resources.StorageEphemeral().Sign() <= 0 || len(c.Resources) != 5 {
		t.Errorf("%+v, CPUs %s", c.Resources, c.CPUs)
	}
	// Before the kubelet has run, storage is not known.
	if c, err = ReadCapacity(host.Below(dir), "/data/kubelet"); err != nil || len(c.Resources) != 4 {
		t.Errorf("%+v, %v", c, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "/sys/devices/system/cpu/online"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err = ReadCapacity(host.Below(dir), "/var/lib/kubelet"); err == nil || !strings.HasPrefix(err.Error(), "/sys/devices/system/cpu/online") {
		t.Errorf("%v", err)
	}
}
