package config

import (
	"errors"

	"k8s.io/utils/cpuset"

	"nodepartition/internal/kubeletconfig"
)

// Draft returns the partitions and types of a configuration for a node with memoryBytes of memory
// and these CPUs, which need not be the node that runs us. It compares the sections with none of
// the kubelet's own settings. With an error, which joins one error for each problem, it returns the
// rest of the sections: a plan shows figures that do not fit, too.
func Draft(k *kubeletconfig.Merged, memoryBytes int64, cpus cpuset.CPUSet) (*Config, error) {
	alone := *k
	alone.Kubelet = kubeletconfig.Kubelet{}
	all, err := decodeSections(&alone)
	n := &node{memoryBytes: memoryBytes, present: cpus, online: cpus}
	list, warnings, sectionsErr := newPartitions(&alone, all, all.names(), n)
	workloads, more, workloadsErr := newWorkloads(&alone, all, "")
	c := &Config{
		Kubelet: &alone, sections: all, Partitions: list, Workloads: workloads, Warnings: append(warnings, more...),
	}
	return c, errors.Join(err, sectionsErr, workloadsErr)
}
