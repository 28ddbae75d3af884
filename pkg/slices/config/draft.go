package config

import (
	"errors"
	"slices"

	"k8s.io/utils/cpuset"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/meminfo"
)

// Size is the size of a node that sections are validated for. It need not be the node that runs us.
// The zero value is a node of which nothing is known: what depends on its size is not validated.
type Size struct {
	// MemoryBytes is the memory of the node.
	MemoryBytes int64
	// BootBytes is the memory that a share is of (BootMemory). 0 means MemoryBytes.
	BootBytes int64
	// CPUs holds the CPUs of the node.
	CPUs cpuset.CPUSet
}

// SizeOf returns the size of the node at root.
func SizeOf(root hostfs.FS) (Size, error) {
	var s Size
	var err error
	if s.MemoryBytes, err = meminfo.Total(root); err != nil {
		return s, err
	}
	if s.BootBytes, err = BootMemory(root); err != nil {
		return s, err
	}
	s.CPUs, err = readCPUs(root, onlinePath)
	return s, err
}

// node returns the facts of a node of this size, which has all that a partition needs.
func (s Size) node() *node {
	return &node{
		controllers: neededControllers(), memoryBytes: s.MemoryBytes, bootBytes: s.BootBytes, present: s.CPUs, online: s.CPUs,
	}
}

// Draft returns the partitions and types of a configuration for a node of a size. It compares the
// sections with none of the kubelet's own settings. With an error, which joins one error for each
// problem, it returns the rest of the sections: a plan shows figures that do not fit, too.
func Draft(k *kubeletconfig.Merged, size Size) (*Config, error) {
	alone := *k
	alone.Kubelet = kubeletconfig.Kubelet{}
	all, err := decodeSections(&alone)
	list, warnings, sectionsErr := newPartitions(&alone, all, all.names(), size.node())
	workloads, more, workloadsErr := newWorkloads(&alone, all, "")
	c := &Config{
		Kubelet: &alone, sections: all, Partitions: list, Workloads: workloads, Warnings: append(warnings, more...),
	}
	return c, errors.Join(err, sectionsErr, workloadsErr)
}

// Validate validates a configuration for a node of a size, as Load does for the node that it reads:
// with the kubelet's own settings, and without the settings outside the configuration. The error
// joins one error for each problem.
func Validate(k *kubeletconfig.Merged, size Size) (*Config, error) {
	c := &Config{Kubelet: k}
	found, err := decodeSections(k)
	c.sections = found
	err = errors.Join(err, c.judge(size.node()))
	c.Warnings = slices.Concat(k.Warnings, strangers(k), c.Warnings)
	return c, err
}
