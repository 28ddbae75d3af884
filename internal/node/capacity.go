package node

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/host"
)

// MemoryCapacity returns the memory of the node at root in bytes. If it cannot be read,
// MemoryCapacity returns 0, and all estimates of requests are 0.
func MemoryCapacity(root host.Root) uint64 {
	total, _ := host.MemoryTotal(root)
	return uint64(total)
}

const (
	onlinePath = "/sys/devices/system/cpu/online"
	// maxFactBytes bounds a kernel file that holds one fact.
	maxFactBytes = 64 << 10
)

// OnlineCPUs returns the CPUs of the node at root that are online. Those that a process may use, by
// which the Go runtime counts, can be fewer.
func OnlineCPUs(root host.Root) (cpuset.CPUSet, error) {
	text, err := root.ReadFile(onlinePath, maxFactBytes)
	if err != nil {
		return cpuset.CPUSet{}, err
	}
	cpus, err := cpuset.Parse(strings.TrimSpace(string(text)))
	if err != nil {
		return cpuset.CPUSet{}, fmt.Errorf("%s: %w", onlinePath, err)
	}
	return cpus, nil
}

// statErrorPages is the part of the least threshold for each CPU, in pages: twice what memory.stat
// may leave out (statErrorBytes, pkg/slices/config).
const statErrorPages = 2 * 64

// leastThreshold returns the lower bound in bytes of the default threshold for the CPUs of the node
// at root, beside the 32 MiB that each node has; 0 if they are not known.
func leastThreshold(root host.Root) uint64 {
	cpus, _ := OnlineCPUs(root)
	return uint64(cpus.Size() * os.Getpagesize() * statErrorPages)
}
