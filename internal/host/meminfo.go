package host

import (
	"fmt"
	"strconv"
	"strings"
)

// meminfoPath is on the node; tests put a root in front of it.
const meminfoPath = "/proc/meminfo"

// maxFile exceeds the size of the file, which has some 60 lines.
const maxFile = 64 << 10

// MemoryTotal returns the memory of the node at root in bytes, as the kubelet counts it: MemTotal
// of /proc/meminfo (GetMachineMemoryCapacity of cAdvisor). It reads the file itself:
// initialising github.com/prometheus/procfs and what it links took 6 % of a run of the generator
// (docs/performance.md).
func MemoryTotal(root Root) (int64, error) {
	bytes, err := meminfo(root, "MemTotal")
	return bytes[0], err
}

// MemoryAvailable returns the memory of the node at root in bytes, and the part of it that is
// available: free, or page cache that was used once. A kubelet counts as much or more. Newer ones
// leave out memory of the kernel, which nobody can use (rootStatsFromMeminfo of
// opencontainers/cgroups, fs2/memory.go).
func MemoryAvailable(root Root) (total, available int64, err error) {
	bytes, err := meminfo(root, "MemTotal", "MemFree", "Inactive(file)")
	return bytes[0], bytes[1] + bytes[2], err
}

// meminfo returns three fields of the file, in bytes.
func meminfo(root Root, names ...string) (bytes [3]int64, err error) {
	data, err := root.ReadFile(meminfoPath, maxFile)
	if err != nil {
		return bytes, err
	}
	for i, name := range names {
		_, rest, found := strings.Cut("\n"+string(data), "\n"+name+":")
		if !found {
			return bytes, fmt.Errorf("%s: has no %s; is /proc mounted?", meminfoPath, name)
		}
		value, _, _ := strings.Cut(rest, "\n")
		kibibytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 52)
		if err != nil || kibibytes < 0 {
			return bytes, fmt.Errorf("%s: %s is %q, want a number of kB", meminfoPath, name, strings.TrimSpace(value))
		}
		bytes[i] = kibibytes << 10
	}
	return bytes, nil
}
