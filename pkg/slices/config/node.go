package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/text"
)

// The files with facts about the node. The paths are on the node; tests put a root in front of
// them.
const (
	controllersPath = partition.CgroupMount + "/cgroup.controllers"
	presentPath     = "/sys/devices/system/cpu/present"
	onlinePath      = "/sys/devices/system/cpu/online"
	siblingsPath    = "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list"
)

// maxFactBytes bounds a kernel file that holds one fact.
const maxFactBytes = 64 << 10

// node holds the facts that a section is validated against.
type node struct {
	// controllers lists the controllers of the unified cgroup hierarchy; nil if cgroup v2 is not
	// mounted.
	controllers []string
	// Size is the size of the node. Its CPUs are those that run.
	Size
	// present holds the CPUs that the node has. They are empty if they are not known.
	present cpuset.CPUSet
	// siblings returns the CPUs on the core of a CPU; nil if the cores are not known.
	siblings func(cpu int) cpuset.CPUSet
}

// Size is the size of a node that sections are validated for. It need not be the node that runs us.
// The zero value is a node of which nothing is known: what depends on its size is not validated.
type Size struct {
	// MemoryBytes is the memory of the node (host.MemoryTotal).
	MemoryBytes uint64
	// BootBytes is the memory that a share is of (BootMemory). 0 means MemoryBytes.
	BootBytes uint64
	// CPUs holds the CPUs of the node.
	CPUs cpuset.CPUSet
}

// SizeOf returns the size of the node at root.
func SizeOf(root host.Root) (s Size, err error) {
	memory, err := host.MemoryTotal(root)
	if err != nil {
		return s, err
	}
	s.MemoryBytes = uint64(memory)
	if s.BootBytes, err = BootMemory(root); err != nil {
		return s, err
	}
	s.CPUs, err = OnlineCPUs(root)
	return s, err
}

// OnlineCPUs returns the CPUs of the node at root that run. Those that a process may use, by which
// the Go runtime counts, can be fewer.
func OnlineCPUs(root host.Root) (cpuset.CPUSet, error) { return readCPUs(root, onlinePath) }

// node returns the facts of a node of this size, which has all that a partition needs.
func (s Size) node() *node { return &node{controllers: neededControllers(), Size: s, present: s.CPUs} }

// boot returns the memory that a share is of, in bytes; 0 if it is not known.
func (s Size) boot() uint64 { return cmp.Or(s.BootBytes, s.MemoryBytes) }

// knowsCPUs reports whether the CPUs of the node are known.
func (n *node) knowsCPUs() bool { return !n.CPUs.IsEmpty() }

func readNode(root host.Root) (*node, error) {
	n := &node{siblings: func(cpu int) cpuset.CPUSet {
		// A kernel need not have the file.
		found, _ := readCPUs(root, fmt.Sprintf(siblingsPath, cpu))
		return found
	}}
	var err error
	if n.controllers, err = readControllers(root); err != nil {
		return nil, err
	}
	if n.Size, err = SizeOf(root); err != nil {
		return nil, err
	}
	n.present, err = readCPUs(root, presentPath)
	return n, err
}

// MemoryFile holds BootedMemory of this boot. The generator writes it with the first units that
// have a share, and a reboot removes it, like everything in /run.
const MemoryFile = StateDir + "/memory.json"

// BootedMemory is the content of MemoryFile.
type BootedMemory struct {
	// TotalBytes is the memory of the node, as host.MemoryTotal returned it.
	TotalBytes uint64 `json:"totalBytes"`
}

// BootMemory returns the memory in bytes that a share of the node at root is of: the memory that
// the node had when a share was first applied in this boot, or the memory of now before that. A
// kernel that is given memory, or returns some to a hypervisor, changes MemTotal while it runs, and
// a reload of systemd for another reason must not change a limit by that.
//
// A file that cannot be read counts as missing: the generator then writes it again.
func BootMemory(root host.Root) (uint64, error) {
	if data, err := root.ReadFile(MemoryFile, maxFactBytes); err == nil {
		var kept BootedMemory
		//guard: memory that was added counts from the next boot
		if json.Unmarshal(data, &kept) == nil && kept.TotalBytes > 0 {
			return kept.TotalBytes, nil
		}
	}
	memory, err := host.MemoryTotal(root)
	return uint64(memory), err
}

// PresentCPUs returns the CPUs that the node has, online or not.
func PresentCPUs(root host.Root) (cpuset.CPUSet, error) { return readCPUs(root, presentPath) }

// readControllers returns nil without an error on cgroup v1 and hybrid nodes, where the file is not
// at the top of /sys/fs/cgroup.
func readControllers(root host.Root) ([]string, error) {
	data, err := root.ReadFile(controllersPath, maxFactBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(data)), nil
}

func readCPUs(root host.Root, name string) (cpuset.CPUSet, error) {
	data, err := root.ReadFile(name, maxFactBytes)
	if err != nil {
		return cpuset.New(), err
	}
	cpus, err := text.ParseCPUs(strings.TrimSpace(string(data)))
	if err != nil {
		return cpuset.New(), fmt.Errorf("%s: %s: %w", name, quote(strings.TrimSpace(string(data))), err)
	}
	return cpus, nil
}

// StatErrorBytes returns twice the number of bytes that memory.stat may leave out on a node with
// these CPUs. The kernel adds up its counts when 64 pages of each CPU have changed
// (memcg_vmstats_needs_flush, mm/memcontrol.c, since 6.8). With 64 CPUs and pages of 4 KiB the
// result is 32 MiB.
func StatErrorBytes(cpus cpuset.CPUSet) uint64 {
	return 2 * 64 * uint64(cpus.Size()) * uint64(os.Getpagesize())
}
