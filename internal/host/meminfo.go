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
// of /proc/meminfo (GetMachineMemoryCapacity of cAdvisor). It reads the one line itself:
// initialising github.com/prometheus/procfs and what it links took 6 % of a run of the generator
// (docs/performance.md).
func MemoryTotal(root Root) (int64, error) {
	data, err := root.ReadFile(meminfoPath, maxFile)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		value, ok := strings.CutPrefix(line, "MemTotal:")
		if !ok {
			continue
		}
		kibibytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 52)
		if err != nil || kibibytes < 0 {
			return 0, fmt.Errorf("%s: MemTotal is %q, want a number of kB", meminfoPath, strings.TrimSpace(value))
		}
		return kibibytes << 10, nil
	}
	return 0, fmt.Errorf("%s: has no MemTotal; is /proc mounted?", meminfoPath)
}
