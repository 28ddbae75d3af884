package node

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"node-partition.io/node-partition/internal/budget"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/pkg/slices/config"
)

// Capacity is the capacity of a node.
type Capacity struct {
	Resources v1.ResourceList
	// Size has the CPUs and the memory of Resources for the sections.
	config.Size
}

// NewCapacity returns the capacity of a node of a size, without huge pages and storage.
func NewCapacity(s config.Size) *Capacity {
	return &Capacity{budget.List(int64(s.CPUs.Size())*1000, int64(s.MemoryBytes)), s}
}

const (
	hugePagesPath = "/sys/kernel/mm/hugepages"
	// maxPageSizes bounds the number of sizes of huge pages.
	maxPageSizes = 100
	// maxFactBytes bounds a kernel file that holds one fact.
	maxFactBytes = 64 << 10
)

// ReadCapacity reads the capacity of the node as the kubelet reports it (CapacityFromMachineInfo,
// pkg/kubelet/cadvisor/util.go): the online CPUs, MemTotal, all huge pages, and the size of the
// file system of the kubelet's root directory. It does not read that size of a foreign node.
func ReadCapacity(n host.Node, rootDir string) (*Capacity, error) {
	size, err := config.SizeOf(n.Root)
	if err != nil {
		return nil, err
	}
	c := NewCapacity(size)
	if err := addHugePages(n.Root, c.Resources); err != nil {
		return nil, err
	}
	if n.Foreign {
		return c, nil // the copy of its files is on a file system of this machine
	}
	dir, err := n.Root.Path(rootDir)
	if err != nil {
		return nil, err
	}
	var disk unix.Statfs_t
	switch err := unix.Statfs(dir, &disk); {
	case errors.Is(err, fs.ErrNotExist): // no kubelet has run yet
	case err != nil:
		return nil, &fs.PathError{Op: "statfs", Path: rootDir, Err: err}
	default:
		bytes := int64(disk.Blocks) * disk.Frsize
		c.Resources[v1.ResourceEphemeralStorage] = *resource.NewQuantity(bytes, resource.DecimalSI)
	}
	return c, nil
}

// addHugePages adds the huge pages of each size (GetHugePagesInfo of cAdvisor). A kernel without
// huge pages has no such folder.
func addHugePages(root host.Root, list v1.ResourceList) error {
	entries, err := root.ReadDir(hugePagesPath, maxPageSizes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		size, isSize := strings.CutPrefix(entry.Name(), "hugepages-")
		kib, err := strconv.ParseInt(strings.TrimSuffix(size, "kB"), 10, 64)
		if !isSize || err != nil {
			continue
		}
		name := path.Join(hugePagesPath, entry.Name(), "nr_hugepages")
		text, err := root.ReadFile(name, maxFactBytes)
		if err != nil {
			return err
		}
		pages, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		pageSize := resource.NewQuantity(kib<<10, resource.BinarySI).String()
		list[v1.ResourceName(v1.ResourceHugePagesPrefix+pageSize)] = *resource.NewQuantity(pages*kib<<10, resource.BinarySI)
	}
	return nil
}

// MemoryCapacity returns the memory of the node at root in bytes. If it cannot be read,
// MemoryCapacity returns 0, and all estimates of requests are 0.
func MemoryCapacity(root host.Root) uint64 {
	total, _ := host.MemoryTotal(root)
	return uint64(total)
}
