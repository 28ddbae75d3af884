package plan

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/text"
	"node-partition.io/node-partition/pkg/slices/config"
)

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
	q, err := text.ParseQuantity(size)
	return err == nil && q.Sign() > 0
}

// ParseCapacity parses the capacity of another node, such as cpu=16,memory=32Gi,storage=100Gi. CPUs
// and memory are required; storage and hugepages-SIZE may be there. The CPUs are numbered from 0.
func ParseCapacity(content string) (*node.Capacity, error) {
	list := v1.ResourceList{}
	for pair := range strings.SplitSeq(content, ",") {
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
		q, err := text.ParseQuantity(strings.TrimSpace(value))
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %q %w; want e.g. cpu=16,memory=32Gi,storage=100Gi", name, value, err)
		case q.Sign() < 0 || q.CmpInt64(maxBytes) > 0:
			return nil, fmt.Errorf("%s: %q is negative or too large", name, value)
		}
		if q.CmpInt64(q.Value()) != 0 && name != string(v1.ResourceCPU) {
			return nil, fmt.Errorf("%s: %q is a part of a byte", name, value)
		}
		if name == string(v1.ResourceMemory) && q.Sign() > 0 {
			if remark := config.LacksUnit(strings.TrimSpace(value), uint64(q.Value())); remark != "" {
				return nil, fmt.Errorf("%s: %q %s", name, value, remark)
			}
		}
		list[v1.ResourceName(name)] = q
	}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if _, there := list[name]; !there {
			return nil, fmt.Errorf("%s is missing; want e.g. cpu=16,memory=32Gi", name)
		}
	}
	cpu := list.Cpu()
	if n := cpu.Value(); n < 1 || n > maxCPUs || cpu.CmpInt64(n) != 0 {
		return nil, fmt.Errorf("cpu: %s: want a whole number of CPUs, 1 to %d", cpu, maxCPUs)
	}
	if list.Memory().Sign() == 0 {
		return nil, errors.New("memory: 0: want e.g. memory=32Gi")
	}
	cpus := make([]int, cpu.Value())
	for i := range cpus {
		cpus[i] = i
	}
	return &node.Capacity{Resources: list, Size: config.Size{
		MemoryBytes: uint64(list.Memory().Value()), CPUs: cpuset.New(cpus...),
	}}, nil
}
