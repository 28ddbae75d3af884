package config

import (
	"k8s.io/utils/cpuset"

	"nodepartition/internal/kubeletconfig"
)

// Draft returns the section of a configuration for a node with memoryBytes of memory and these
// CPUs, which need not be the node that runs us. It returns nil without a section. It compares the
// section with none of the kubelet's own settings. With an error, which joins one error for each
// problem, it returns the rest of the section: a plan shows figures that do not fit, too.
func Draft(k *kubeletconfig.Config, memoryBytes int64, cpus cpuset.CPUSet) (*Partition, []string, error) {
	alone := *k
	alone.Kubelet = kubeletconfig.Kubelet{}
	section, err := decodeSection(&alone)
	if err != nil || section == nil {
		return nil, nil, err
	}
	c := checker{config: &alone, section: section, node: &node{memoryBytes: memoryBytes, present: cpus, online: cpus}}
	c.unknownFields()
	p := c.partition()
	return p, c.warnings, c.problems.err()
}
