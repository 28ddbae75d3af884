package config

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/text"
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
	// Protection is the protected memory of Slice.
	Protection cgroups.Protection
	// CPUWeight is the weight of Slice, 1 to 10000; 0 for the default, 100.
	CPUWeight int
}

// IsZero reports whether the settings change nothing.
func (s *Services) IsZero() bool {
	return s.Slice == "" && s.CPUs.IsEmpty() && s.OOMScoreAdjust == nil && !s.Delegate &&
		!s.HasProtection()
}

// HasProtection reports whether Slice has protected memory or a weight.
func (s *Services) HasProtection() bool {
	return s.Protection != cgroups.Protection{} || s.CPUWeight != 0
}

const (
	// onPartitionCPUs is the one value of the settings for CPUs.
	onPartitionCPUs = "partition"
	// maxWeight is the largest weight of a cgroup (CGROUP_WEIGHT_MAX).
	maxWeight = 10000
	// smallSetting in bytes is less than any use of the settings for memory.
	smallSetting = 1 << 20
)

type settings struct {
	values   kubeletconfig.Settings
	system   *Partition // nil without one
	broken   bool       // the sections have a problem: which partitions there are is not known
	problems problems
	warnings []string
}

func (s *settings) bad(key, format string, args ...any) {
	s.problems.add(kubeletconfig.SettingsPath, key, quote(s.values[key]), format, args...)
}

func (s *settings) warn(key, format string, args ...any) {
	s.warnings = append(s.warnings, kubeletconfig.SettingsPath+": "+key+": "+fmt.Sprintf(format, args...))
}

// settings reads the settings once the partitions are known. With broken sections they are not. The
// error lists every problem.
func (c *Config) settings(root host.Root, broken bool) error {
	s := settings{values: c.Kubelet.Settings, broken: broken}
	if !broken {
		s.system = c.System()
	}
	s.unknown()
	protected := s.partition()
	services := s.services(c.Reserved.Slices)
	hostCPUs := s.hostCPUs(c.Kubelet)
	s.allProtected(root, protected, services.Protection)
	if len(s.problems) > 0 {
		return s.problems.err()
	}
	c.Services, c.HostCPUs = services, hostCPUs
	c.Warnings = append(c.Warnings, s.warnings...)
	return nil
}

func (s *settings) unknown() {
	for _, key := range s.values.Unknown() {
		if strings.HasPrefix(key, kubeletconfig.IRQPrefix) {
			s.warn(text.ASCII(key), "unknown setting, ignoring; docs/cgroups.md says what keeps interrupts off CPUs")
			continue
		}
		family, _, _ := strings.Cut(key, "_")
		known := slices.DeleteFunc(kubeletconfig.KnownKeys(), func(k string) bool {
			return !strings.HasPrefix(k, family+"_")
		})
		s.warn(text.ASCII(key), "unknown setting, ignoring; known are %s", strings.Join(known, ", "))
	}
}

// services reads the settings for services, and compares their slice with those that the kubelet
// limits.
func (s *settings) services(reserved []ReservedSlice) Services {
	v := Services{
		Slice: s.slice(kubeletconfig.SliceKey), CPUs: s.cpus(kubeletconfig.CPUsKey),
		OOMScoreAdjust: s.number(kubeletconfig.OOMScoreAdjustKey, -1000, 0, -999), Delegate: s.yes(kubeletconfig.DelegateKey),
		Protection: s.protection(kubeletconfig.ServicesMemoryMinKey, kubeletconfig.ServicesMemoryLowKey),
	}
	s.lowAbove(kubeletconfig.ServicesMemoryLowKey, v.Protection)
	if weight := s.number(kubeletconfig.CPUWeightKey, 1, maxWeight, 1000); weight != nil {
		v.CPUWeight = *weight
	}
	for _, key := range []string{
		kubeletconfig.ServicesMemoryMinKey, kubeletconfig.ServicesMemoryLowKey, kubeletconfig.CPUWeightKey,
	} {
		switch slice := s.values[kubeletconfig.SliceKey]; {
		case s.values[key] == "":
		case slice == "":
			s.bad(key, "needs a slice for the kubelet and the runtime, because system.slice stays as it is; want %s too", kubeletconfig.SliceKey)
		case isBelow(slice, systemSlice):
			s.bad(key, "has no effect against pods in a slice below system.slice, which stays as it is; want a slice outside of it, "+
				"such as %s=kubernetes.slice", kubeletconfig.SliceKey)
		}
	}
	for _, r := range reserved {
		if v.CPUWeight != 0 && isBelow(v.Slice, r.Name) {
			s.warn(kubeletconfig.CPUWeightKey, "the kubelet gives %s the weight of its reserved cpu (%s, %s), which wins if there is one",
				r.Name, r.For, r.File)
		}
		if r.For == "kube-reserved" && v.Slice != "" && v.Slice != r.Name {
			s.warn(kubeletconfig.SliceKey, "%s: the kubelet enforces kubeReserved on %s (%s), where its service does not run; "+
				"want one slice for both", quote(v.Slice), r.Name, r.File)
		}
	}
	return v
}

// partition reads the settings of the system partition, and returns its protected memory. Other
// partitions have no settings.
func (s *settings) partition() cgroups.Protection {
	minKey, lowKey := kubeletconfig.PartitionMemoryMinKey, kubeletconfig.PartitionMemoryLowKey
	p, before := s.system, s.warnings
	if p == nil {
		p = &Partition{}
	}
	p.Protection = s.protection(minKey, lowKey)
	// More than the limit would protect nothing in the partition. That is a warning: the two are in
	// different files, and a node whose limit was lowered keeps its partition.
	if limit := wholePages(p.Limit); p.Limit > 0 {
		s.atMost(minKey, &p.Protection.Min, limit)
		s.atMost(lowKey, &p.Protection.Low, limit)
	}
	s.lowAbove(lowKey, p.Protection)
	// The kernel takes the largest amount for no bound (PAGE_COUNTER_MAX).
	if swap := s.bytes(kubeletconfig.SwapMaxKey, ", or 0 for no swap"); s.values[kubeletconfig.SwapMaxKey] != "" && swap < wholePages(math.MaxInt64) {
		p.SwapMax = &swap
	}
	s.yes(kubeletconfig.WatchKey)
	if s.system != nil {
		return p.Protection
	}
	s.warnings = before
	for _, key := range []string{minKey, lowKey, kubeletconfig.SwapMaxKey} {
		if s.values[key] != "" && !s.broken {
			s.warn(key, "does nothing without %s", kubeletconfig.SectionField)
		}
	}
	return cgroups.Protection{}
}

// atMost lowers protected memory to a limit.
func (s *settings) atMost(key string, bytes *uint64, limit uint64) {
	if *bytes > limit {
		s.warn(key, "%s is above memoryLimit of %s: protecting that, %d bytes", quote(s.values[key]), kubeletconfig.SectionField, limit)
		*bytes = limit
	}
}

// hostCPUs reads the CPUs of what is neither a pod nor a service of the kubelet.
func (s *settings) hostCPUs(k *kubeletconfig.Merged) cpuset.CPUSet {
	cpus := s.cpus(kubeletconfig.SystemCPUsKey)
	if cpus.IsEmpty() {
		return cpus
	}
	for _, of := range []struct{ field, cgroup string }{
		{"systemReservedCgroup", k.Kubelet.SystemReservedCgroup}, {"kubeReservedCgroup", k.Kubelet.KubeReservedCgroup},
	} {
		// getCgroupConfig, pkg/kubelet/cm/node_container_manager_linux.go
		if name := kubeletSlice(of.cgroup); name == systemSlice || name == userSlice {
			s.warn(kubeletconfig.SystemCPUsKey, "%s: %s is %s: a kubelet that enforces it without the static CPU manager gives %s all CPUs, which wins",
				k.FileWith(of.field), of.field, text.Quote(of.cgroup), name)
		}
	}
	return cpus
}

// allProtected compares all protected memory with the memory of the node. A node whose size cannot
// be read has no partition.
func (s *settings) allProtected(root host.Root, partition, services cgroups.Protection) {
	sum := max(partition.Min, partition.Low) + max(services.Min, services.Low)
	if total, err := host.MemoryTotal(root); err == nil && sum > 0 && sum >= uint64(total) {
		s.warnings = append(s.warnings, fmt.Sprintf(
			"%s: the protected memory of partition and services, %d bytes, is not below the node's memory of %d bytes: "+
				"the kernel has nothing else to reclaim, and kills; want less", kubeletconfig.SettingsPath, sum, total))
	}
}

func (s *settings) slice(key string) string {
	const want = "want the name of a slice, such as kubernetes.slice"
	name := s.values[key]
	if name == "" {
		return ""
	}
	switch why := unfitSlice(name); {
	case kubeletSlice(name) != name:
		s.bad(key, "is not the name of a slice; %s", want)
	case why != "":
		s.bad(key, "%s; %s", why, want)
	case name == systemSlice || isBelow(name, userSlice):
		s.bad(key, "is a slice for other services or for users; %s", want)
	}
	return name
}

// cpus reads a setting for services that run on the CPUs of the system partition.
func (s *settings) cpus(key string) cpuset.CPUSet {
	switch value := s.values[key]; {
	case value == "":
	case value != onPartitionCPUs:
		s.bad(key, "is not known; want %s, for the cpuset of %s", onPartitionCPUs, kubeletconfig.SectionField)
	case s.broken:
	case s.system == nil || s.system.CPUs.IsEmpty():
		s.warn(key, "does nothing without cpuset of %s", kubeletconfig.SectionField)
	default:
		return s.system.CPUs
	}
	return cpuset.New()
}

func (s *settings) yes(key string) bool {
	value := s.values[key]
	if value != "" && value != "yes" && value != "no" {
		s.bad(key, "is neither yes nor no")
	}
	return value == "yes"
}

// number reads a whole number; nil without one.
func (s *settings) number(key string, least, most, example int) *int {
	value := s.values[key]
	if value == "" {
		return nil
	}
	number, err := strconv.Atoi(value)
	if err != nil || number < least || number > most {
		s.bad(key, "is not a number from %d to %d; want e.g. %d", least, most, example)
	}
	return &number
}

func (s *settings) protection(minKey, lowKey string) cgroups.Protection {
	return cgroups.Protection{Min: s.bytes(minKey, ""), Low: s.bytes(lowKey, "")}
}

// lowAbove warns of memory that is protected as a last resort and never reclaimed anyway.
func (s *settings) lowAbove(key string, p cgroups.Protection) {
	if p.Low > 0 && p.Low <= p.Min {
		s.warn(key, "does nothing: it is not above the %d bytes that are never reclaimed", p.Min)
	}
}

// bytes reads a quantity of bytes, 0 or more, and rounds it down to whole pages, as the kernel does
// (page_counter_memparse). or ends the error.
func (s *settings) bytes(key, or string) uint64 {
	value := s.values[key]
	if value == "" {
		return 0
	}
	bytes, err := parseQuantity(value, 0)
	switch {
	case err != nil:
		s.bad(key, "%v%s", err, or)
	case bytes > 0 && bytes < smallSetting:
		s.warn(key, "%s is less than %d MiB; is a unit such as Mi missing?", quote(value), smallSetting>>20)
	}
	return wholePages(bytes)
}

func wholePages(bytes uint64) uint64 { return bytes &^ (uint64(os.Getpagesize()) - 1) }
