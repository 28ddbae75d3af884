package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"k8s.io/utils/cpuset"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/meminfo"
	"nodepartition/internal/quantity"
	"nodepartition/internal/unitname"
)

// The files with facts about the node. The paths are on the node; tests put a root in front of
// them.
const (
	controllersPath = unitname.CgroupMount + "/cgroup.controllers"
	presentPath     = "/sys/devices/system/cpu/present"
	onlinePath      = "/sys/devices/system/cpu/online"
)

// maxFactBytes bounds a kernel file that holds one fact.
const maxFactBytes = 64 << 10

// node holds the facts that a section is validated against.
type node struct {
	// controllers lists the controllers of the unified cgroup hierarchy; nil if cgroup v2 is not
	// mounted.
	controllers []string
	// memoryBytes is the size of the memory (meminfo.Total), and bootBytes the one that a share is of
	// (BootMemory). 0 means that it is not known, or that the two are equal.
	memoryBytes, bootBytes int64
	// present holds the CPUs that the node has, online the CPUs that run. They are empty if they are
	// not known.
	present, online cpuset.CPUSet
}

// boot returns the memory that a share is of, in bytes; 0 if it is not known.
func (n *node) boot() int64 { return cmp.Or(n.bootBytes, n.memoryBytes) }

// knowsCPUs reports whether the CPUs of the node are known.
func (n *node) knowsCPUs() bool { return !n.online.IsEmpty() }

// readNode reads the facts below root.
func readNode(root hostfs.FS) (*node, error) {
	n := &node{}
	var err error
	if n.controllers, err = readControllers(root); err != nil {
		return nil, err
	}
	if n.memoryBytes, err = meminfo.Total(root); err != nil {
		return nil, err
	}
	if n.bootBytes, err = BootMemory(root); err != nil {
		return nil, err
	}
	if n.present, err = readCPUs(root, presentPath); err != nil {
		return nil, err
	}
	if n.online, err = readCPUs(root, onlinePath); err != nil {
		return nil, err
	}
	return n, nil
}

// PresentCPUs returns the CPUs that the node has, online or not.
func PresentCPUs(root hostfs.FS) (cpuset.CPUSet, error) { return readCPUs(root, presentPath) }

// readControllers returns nil without an error on cgroup v1 and hybrid nodes, where the file is not
// at the top of /sys/fs/cgroup.
func readControllers(root hostfs.FS) ([]string, error) {
	data, err := root.ReadFile(controllersPath, maxFactBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(data)), nil
}

func readCPUs(root hostfs.FS, name string) (cpuset.CPUSet, error) {
	data, err := root.ReadFile(name, maxFactBytes)
	if err != nil {
		return cpuset.New(), err
	}
	cpus, err := quantity.ParseCPUs(strings.TrimSpace(string(data)))
	if err != nil {
		return cpuset.New(), fmt.Errorf("%s: %s: %w", name, quote(strings.TrimSpace(string(data))), err)
	}
	return cpus, nil
}

// statErrorBytes returns twice the number of bytes that memory.stat may leave out. The kernel adds
// up its counts when 64 pages of each CPU have changed (memcg_vmstats_needs_flush, mm/memcontrol.c,
// since 6.8). With 64 CPUs and pages of 4 KiB the result is 32 MiB.
func (n *node) statErrorBytes() int64 {
	return 2 * 64 * int64(n.online.Size()) * int64(os.Getpagesize())
}
