package plan

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
	"k8s.io/utils/cpuset"

	"nodepartition/internal/budget"
	"nodepartition/internal/hostfs"
	"nodepartition/internal/meminfo"
	"nodepartition/internal/monitor/node"
	"nodepartition/internal/quantity"
)

const (
	hugePagesPath = "/sys/kernel/mm/hugepages"
	// maxFactBytes bounds a kernel file that holds one fact, and maxSizes the number of page sizes.
	maxFactBytes = 64 << 10
	maxSizes     = 100
)

// readCapacity reads the capacity of the node as the kubelet reports it (CapacityFromMachineInfo,
// pkg/kubelet/cadvisor/util.go): the online CPUs, MemTotal, all huge pages, and the size of the
// file system of the kubelet's root directory.
func readCapacity(root hostfs.FS, rootDir string) (*Capacity, error) {
	cpus, err := node.OnlineCPUs(root)
	if err != nil {
		return nil, err
	}
	memory, err := meminfo.Total(root)
	if err != nil {
		return nil, err
	}
	c := &Capacity{Resources: budget.List(int64(cpus.Size())*1000, memory), CPUs: cpus}
	if err := addHugePages(root, c.Resources); err != nil {
		return nil, err
	}
	dir, err := root.Path(rootDir)
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
func addHugePages(root hostfs.FS, list v1.ResourceList) error {
	entries, err := root.ReadDir(hugePagesPath, maxSizes)
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

// storage is the name of ephemeral storage on the command line.
const storage = "storage"

// maxCPUs is the highest number of CPUs that Linux can be built for (NR_CPUS, arch/x86/Kconfig).
const maxCPUs = 8192

// maxBytes is an exbibyte.
const maxBytes = 1 << 60

// isHugePages reports whether name is hugepages-SIZE, such as hugepages-2Mi.
func isHugePages(name string) bool {
	size, ok := strings.CutPrefix(name, v1.ResourceHugePagesPrefix)
	if !ok {
		return false
	}
	q, err := quantity.Parse(size)
	return err == nil && q.Sign() > 0
}

// ParseCapacity parses the capacity of another node, such as cpu=16,memory=32Gi,storage=100Gi. CPUs
// and memory are required; storage and hugepages-SIZE may be there. The CPUs are numbered from 0.
func ParseCapacity(text string) (*Capacity, error) {
	list := v1.ResourceList{}
	for pair := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		if name == storage {
			name = string(v1.ResourceEphemeralStorage)
		}
		switch {
		case name == string(v1.ResourceCPU), name == string(v1.ResourceMemory), name == string(v1.ResourceEphemeralStorage),
			isHugePages(name):
		default:
			return nil, fmt.Errorf("%q: want cpu, memory, storage or hugepages-SIZE, and = behind it", name)
		}
		if _, twice := list[v1.ResourceName(name)]; twice {
			return nil, fmt.Errorf("%s is there twice", name)
		}
		q, err := quantity.Parse(strings.TrimSpace(value))
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %q %w; want e.g. cpu=16,memory=32Gi,storage=100Gi", name, value, err)
		case q.Sign() < 0 || q.CmpInt64(maxBytes) > 0:
			return nil, fmt.Errorf("%s: %q is negative or too large", name, value)
		}
		if q.CmpInt64(q.Value()) != 0 && name != string(v1.ResourceCPU) {
			return nil, fmt.Errorf("%s: %q is a part of a byte", name, value)
		}
		list[v1.ResourceName(name)] = q
	}
	cpu := list.Cpu()
	if n := cpu.Value(); n < 1 || n > maxCPUs || cpu.CmpInt64(n) != 0 {
		return nil, fmt.Errorf("cpu: %s: want a whole number of CPUs, 1 to %d", cpu, maxCPUs)
	}
	if list.Memory().Sign() == 0 {
		return nil, errors.New("memory is missing; want e.g. memory=32Gi")
	}
	cpus := make([]int, cpu.Value())
	for i := range cpus {
		cpus[i] = i
	}
	return &Capacity{Resources: list, CPUs: cpuset.New(cpus...)}, nil
}
