package config

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"

	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/oneline"
)

// Services holds the settings for the services of the kubelet and of the container runtime. Its
// zero value changes nothing.
type Services struct {
	// Slice is the slice to run them in; empty for the present one.
	Slice string
	// CPUs holds the CPUs to run them on; empty means no restriction.
	CPUs cpuset.CPUSet
	// OOMScoreAdjust is the value for OOMScoreAdjust=; nil for the present one.
	OOMScoreAdjust *int
	// Delegate means Delegate=yes, also if there is no partition.
	Delegate bool
	// Floor is the protected memory of Slice.
	Floor Floor
	// CPUWeight is the weight of Slice, 1 to 10000; 0 for the default, 100.
	CPUWeight int
}

// IsZero reports whether the settings change nothing.
func (s *Services) IsZero() bool {
	return s.Slice == "" && s.CPUs.IsEmpty() && s.OOMScoreAdjust == nil && !s.Delegate &&
		!s.HasFloor()
}

// HasFloor reports whether Slice has protected memory or a weight.
func (s *Services) HasFloor() bool { return s.Floor != Floor{} || s.CPUWeight != 0 }

// maxWeight is the largest weight of a cgroup (CGROUP_WEIGHT_MAX).
const maxWeight = 10000

// onPartitionCPUs is the one value of SERVICES_CPUS.
const onPartitionCPUs = "partition"

// newServices validates the settings for services. The error lists every problem. The CPUs follow
// from the partition, and are not set yet.
func newServices(settings kubeletconfig.ServiceSettings) (Services, error) {
	var s Services
	var list problems
	bad := func(key, value, format string, args ...any) {
		list.add(kubeletconfig.SettingsPath, key, quote(value), format, args...)
	}
	if name := settings.Slice; name != "" {
		const want = "want the name of a slice, such as kubernetes.slice"
		switch why := unfitSlice(name); {
		case kubeletSlice(name) != name:
			bad(kubeletconfig.SliceKey, name, "is not the name of a slice; %s", want)
		case why != "":
			bad(kubeletconfig.SliceKey, name, "%s; %s", why, want)
		case name == systemSlice || isBelow(name, userSlice):
			bad(kubeletconfig.SliceKey, name, "is a slice for other services or for users; %s", want)
		default:
			s.Slice = name
		}
	}
	if value := settings.CPUs; value != "" && value != onPartitionCPUs {
		bad(kubeletconfig.CPUsKey, value, "is not known; want %s, for the cpuset of the partition", onPartitionCPUs)
	}
	if value := settings.OOMScoreAdjust; value != "" {
		score, err := strconv.Atoi(value)
		if err != nil || score < -1000 || score > 0 {
			bad(kubeletconfig.OOMScoreAdjustKey, value, "is not a number from -1000 to 0; want e.g. -999")
		}
		s.OOMScoreAdjust = &score
	}
	switch value := settings.Delegate; value {
	case "", "no":
	case "yes":
		s.Delegate = true
	default:
		bad(kubeletconfig.DelegateKey, value, "is neither yes nor no")
	}
	s.Floor = newFloor(kubeletconfig.ServicesMemoryMinKey, settings.MemoryMin,
		kubeletconfig.ServicesMemoryLowKey, settings.MemoryLow, bad)
	if value := settings.CPUWeight; value != "" {
		weight, err := strconv.Atoi(value)
		if err != nil || weight < 1 || weight > maxWeight {
			bad(kubeletconfig.CPUWeightKey, value, "is not a number from 1 to %d; want e.g. 1000", maxWeight)
		}
		s.CPUWeight = weight
	}
	for _, of := range []struct{ key, value string }{
		{kubeletconfig.ServicesMemoryMinKey, settings.MemoryMin},
		{kubeletconfig.ServicesMemoryLowKey, settings.MemoryLow},
		{kubeletconfig.CPUWeightKey, settings.CPUWeight},
	} {
		switch {
		case of.value == "":
		case settings.Slice == "":
			bad(of.key, of.value, "needs a slice for the kubelet and the runtime, because system.slice stays as it is; want %s too",
				kubeletconfig.SliceKey)
		case isBelow(settings.Slice, systemSlice):
			bad(of.key, of.value, "has no effect against pods in a slice below system.slice, which stays as it is; want a slice beside it, "+
				"such as %s=kubernetes.slice", kubeletconfig.SliceKey)
		}
	}
	return s, list.err()
}

// placeServices completes the settings for services once the partition is known, and compares the
// slice with the one that the kubelet limits for its kubeReserved.
func (c *Config) placeServices() {
	warn := func(key, format string, args ...any) {
		c.Warnings = append(c.Warnings, kubeletconfig.SettingsPath+": "+key+": "+fmt.Sprintf(format, args...))
	}
	if key := c.Kubelet.Services.Unknown; key != "" {
		warn(oneline.ASCII(key), "unknown setting, ignoring; known are %s", strings.Join(c.Kubelet.Services.Keys(), ", "))
	}
	if c.Kubelet.Services.CPUs != "" {
		if p := c.System(); p != nil {
			c.Services.CPUs = p.CPUs
		}
		if c.Services.CPUs.IsEmpty() {
			warn(kubeletconfig.CPUsKey, "does nothing without cpuset of %s", kubeletconfig.SectionField)
		}
	}
	for _, s := range c.Reserved.Slices {
		if isBelow(c.Services.Slice, s.Name) && c.Services.CPUWeight != 0 {
			warn(kubeletconfig.CPUWeightKey, "the kubelet gives %s the weight of its reserved cpu (%s, %s), which wins if there is one",
				s.Name, s.For, s.File)
		}
		if s.For == "kube-reserved" && c.Services.Slice != "" && c.Services.Slice != s.Name {
			warn(kubeletconfig.SliceKey, "%s: the kubelet enforces kubeReserved on %s (%s), where its service does not run; "+
				"want one slice for both", quote(c.Services.Slice), s.Name, s.File)
		}
	}
}
