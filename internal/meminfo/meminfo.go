// Package meminfo reads the size of the node's memory.
package meminfo

import (
	"fmt"

	"github.com/prometheus/procfs"

	"nodepartition/internal/hostfs"
)

// The paths are on the node; tests put a root in front of them.
const (
	procPath = "/proc"
	path     = "/proc/meminfo"
)

// Total returns the memory of the node at root in bytes, as the kubelet counts it: MemTotal of
// /proc/meminfo (GetMachineMemoryCapacity of cAdvisor).
func Total(root hostfs.FS) (int64, error) {
	dir, err := root.Path(procPath)
	if err != nil {
		return 0, err
	}
	proc, err := procfs.NewFS(dir)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", procPath, err)
	}
	info, err := proc.Meminfo()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	if info.MemTotalBytes == nil {
		return 0, fmt.Errorf("%s: has no MemTotal; is /proc mounted?", path)
	}
	return int64(min(*info.MemTotalBytes, 1<<62)), nil
}
