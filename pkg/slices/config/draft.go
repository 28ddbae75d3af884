package config

import (
	"errors"
	"slices"

	"node-partition.io/node-partition/internal/kubeletconfig"
)

// Draft validates a configuration for a node of a size, and compares it with none of the kubelet's
// own settings. With an error, which joins one error for each problem, it returns what is valid of
// the sections: a plan shows figures that do not fit, too.
func Draft(k *kubeletconfig.Merged, size Size) (*Config, error) {
	alone := *k
	alone.Kubelet = kubeletconfig.Kubelet{}
	return Validate(&alone, size)
}

// Validate validates a configuration for a node of a size, as Load does for the node that it reads:
// with the kubelet's own settings, and without the settings outside the configuration. The error
// joins one error for each problem. What is valid of the sections is returned, too.
func Validate(k *kubeletconfig.Merged, size Size) (*Config, error) {
	c := &Config{Kubelet: k}
	found, err := decodeSections(k)
	c.sections = found
	err = errors.Join(err, c.judge(size.node()))
	c.Warnings = slices.Concat(k.Warnings, strangers(k), c.Warnings)
	return c, err
}
