package slices

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"k8s.io/utils/cpuset"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/meminfo"
)

// The files that say what the node is. Paths as on the node; a test's root is in front of them.
const (
	controllersPath = "/sys/fs/cgroup/cgroup.controllers"
	presentPath     = "/sys/devices/system/cpu/present"
	onlinePath      = "/sys/devices/system/cpu/online"
	systemCgroup    = "/sys/fs/cgroup/kubepods.slice/" + SystemSlice
)

// maxFactBytes bounds a file of the kernel that says one thing.
const maxFactBytes = 64 << 10

// unitDirs are where a service's unit may stand (systemd.unit(5), system unit search path, without the
// directories of generators, whose content is not there yet).
var unitDirs = []string{
	"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
}

// Node is what a plan has to know of the node.
type Node struct {
	// Controllers are those of the unified cgroup hierarchy; nil where cgroup v2 is not what is mounted.
	Controllers []string
	// MemoryBytes is the size of the memory (meminfo.Total).
	MemoryBytes int64
	// Present are the CPUs the node has, Online those that run.
	Present, Online cpuset.CPUSet
	// Services are those of kubeletServices, runtimeServices and MonitorService that are installed.
	Services []string
}

// Has reports whether a service is installed.
func (n *Node) Has(service string) bool { return slices.Contains(n.Services, service) }

// ReadNode reads the facts below root.
func ReadNode(root hostfs.FS) (*Node, error) {
	node := &Node{}
	var err error
	if node.Controllers, err = readControllers(root); err != nil {
		return nil, err
	}
	if node.MemoryBytes, err = meminfo.Total(root); err != nil {
		return nil, err
	}
	if node.Present, err = readCPUs(root, presentPath); err != nil {
		return nil, err
	}
	if node.Online, err = readCPUs(root, onlinePath); err != nil {
		return nil, err
	}
	for _, service := range slices.Concat(kubeletServices, runtimeServices, []string{MonitorService}) {
		if slices.ContainsFunc(unitDirs, func(dir string) bool { return root.Exists(path.Join(dir, service)) }) {
			node.Services = append(node.Services, service)
		}
	}
	return node, nil
}

// readControllers returns nil without an error on cgroup v1 and hybrid nodes, where the file is not at the
// top of /sys/fs/cgroup.
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
	cpus, err := parseCPUs(strings.TrimSpace(string(data)))
	if err != nil {
		return cpuset.New(), fmt.Errorf("%s: %s: %w", name, quote(strings.TrimSpace(string(data))), err)
	}
	return cpus, nil
}

// statErrorBytes is twice what memory.stat may leave out, in bytes: the kernel adds up its counts when 64 pages of each CPU have changed
// (memcg_vmstats_needs_flush, mm/memcontrol.c, since 6.8). With 64 CPUs and pages of 4 KiB it is 32 MiB.
func (n *Node) statErrorBytes() int64 {
	return 2 * 64 * int64(n.Online.Size()) * int64(os.Getpagesize())
}
