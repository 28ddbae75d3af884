package config

import (
	"fmt"
	"strings"

	"k8s.io/utils/cpuset"

	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/oneline"
)

// checkHost validates the settings for the rest of the node.
func checkHost(settings kubeletconfig.HostSettings) error {
	var list problems
	if value := settings.CPUs; value != "" && value != onPartitionCPUs {
		list.add(kubeletconfig.SettingsPath, kubeletconfig.SystemCPUsKey, quote(value),
			"is not known; want %s, for the cpuset of %s", onPartitionCPUs, kubeletconfig.SectionField)
	}
	return list.err()
}

// placeHost fills in the CPUs of the rest of the node, once the partitions are known.
func (c *Config) placeHost() {
	warn := func(key, format string, args ...any) {
		c.Warnings = append(c.Warnings, kubeletconfig.SettingsPath+": "+key+": "+fmt.Sprintf(format, args...))
	}
	settings := c.Kubelet.Host
	switch {
	case strings.HasPrefix(settings.Unknown, kubeletconfig.IRQPrefix):
		warn(oneline.ASCII(settings.Unknown), "unknown setting, ignoring; docs/low-latency.md says what keeps interrupts off CPUs")
	case settings.Unknown != "":
		warn(oneline.ASCII(settings.Unknown), "unknown setting, ignoring; known are %s", strings.Join(settings.Keys(), ", "))
	}
	if settings.CPUs == "" {
		return
	}
	if c.HostCPUs = c.systemCPUs(); c.HostCPUs.IsEmpty() {
		warn(kubeletconfig.SystemCPUsKey, "does nothing without cpuset of %s", kubeletconfig.SectionField)
		return
	}
	k := &c.Kubelet.Kubelet
	for _, of := range []struct{ field, cgroup string }{
		{"systemReservedCgroup", k.SystemReservedCgroup}, {"kubeReservedCgroup", k.KubeReservedCgroup},
	} {
		// getCgroupConfig, pkg/kubelet/cm/node_container_manager_linux.go
		if name := kubeletSlice(of.cgroup); name == systemSlice || name == userSlice {
			warn(kubeletconfig.SystemCPUsKey, "%s: %s is %s: a kubelet that enforces it without the static CPU manager gives %s all CPUs, which wins",
				c.Kubelet.FileWith(of.field), of.field, oneline.Quote(of.cgroup), name)
		}
	}
}

// systemCPUs returns the CPUs of the system partition; empty without a list.
func (c *Config) systemCPUs() cpuset.CPUSet {
	if p := c.System(); p != nil {
		return p.CPUs
	}
	return cpuset.New()
}
