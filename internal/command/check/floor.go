package check

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/pkg/slices/config"
)

// floor compares the protected memory of the partition and of the services with the settings. The
// kernel protects a cgroup only as far as the cgroups above it are protected.
func (c *checks) floor(context.Context) []state.Finding {
	var found []state.Finding
	for _, p := range c.desired.Partitions {
		if p.Protection != (cgroups.Protection{}) {
			found = append(found, c.partitionProtection(p.Name, p.Protection)...)
		}
	}
	if services := &c.desired.Services; services.HasProtection() {
		found = append(found, c.servicesProtection(services)...)
	}
	if found == nil {
		found = saying(state.OK, "no memory is protected by a setting")
	}
	return found
}

// partitionProtection checks a partition and kubepods.slice above it.
func (c *checks) partitionProtection(name partition.Name, want cgroups.Protection) []state.Finding {
	slice, parent := name.Slice(), partition.Default.Slice()
	has, err := c.cgroups.Limits(partition.CgroupPath(slice))
	if err != nil {
		return nil // reported by the check slice
	}
	if less := lacks(has.Protection, want); less != "" {
		return changing(state.Error, "systemctl daemon-reload", "%s: %s (%s)", slice, less, kubeletconfig.SettingsPath)
	}
	var found []state.Finding
	above, err := c.cgroups.Limits(partition.CgroupPath(parent))
	if err != nil {
		return saying(state.Error, "%v", err)
	}
	if less := lacks(above.Protection, want); less != "" {
		found = append(found, changing(
			state.Warning, "systemctl start "+partition.MonitorService+", which sets it, unless the kubelet protects pods itself "+
				"(memoryReservationPolicy: TieredReservation)",
			"%s: %s: the floor of the partition is effective only as far if the whole node is short of memory", parent, less,
		)...)
	}
	if mounts, err := c.options.Node.Root.ReadFile(mountsPath, maxMounts); err == nil && !recursive(string(mounts)) {
		found = append(found, changing(
			state.Warning, "mount it with memory_recursiveprot, as systemd does from version 247 on",
			"cgroup2 is mounted without memory_recursiveprot: pods in the partition are not protected by its floor",
		)...)
	}
	if want.Low > want.Min && generations(c.options.Node.Root) {
		found = append(found, changing(
			state.Warning, fmt.Sprintf("set %s in %s, or switch it off: echo n >%s", kubeletconfig.PartitionMemoryMinKey,
				kubeletconfig.SettingsPath, generationsPath),
			"the kernel has its multi-generational LRU on: it reclaims memory below memory.low soon, and leaves memory below memory.min alone",
		)...)
	}
	if found == nil {
		found = saying(state.OK, "%s and %s protect %d bytes always and %d if possible", slice, parent, want.Min, want.Low)
	}
	return found
}

// servicesProtection checks the slice of the kubelet and of the runtime, and those above it.
func (c *checks) servicesProtection(want *config.Services) []state.Finding {
	const boot = "reboot the node: these settings apply from the next boot on"
	var found []state.Finding
	levels := strings.Split(partition.CgroupPath(want.Slice), "/")
	for i, slice := range levels {
		has, err := c.cgroups.Limits(strings.Join(levels[:i+1], "/"))
		if err != nil {
			return changing(state.Warning, boot, "%s is not active (%s)", slice, kubeletconfig.SettingsPath)
		}
		if less := lacks(has.Protection, want.Protection); less != "" {
			found = append(found, changing(
				state.Warning, boot+"; with kube-reserved in enforceNodeAllocatable and MemoryQoS the reserved memory wins",
				"%s: %s (%s)", slice, less, kubeletconfig.SettingsPath,
			)...)
		}
		if want.CPUWeight != 0 && has.CPUWeight != uint64(want.CPUWeight) {
			found = append(found, changing(
				state.Warning, boot+"; with kube-reserved in enforceNodeAllocatable the weight of its reserved cpu wins",
				"%s: cpu.weight is %d; %s asks for %d", slice, has.CPUWeight, kubeletconfig.CPUWeightKey, want.CPUWeight,
			)...)
		}
	}
	if found == nil {
		found = saying(state.OK, "%s has its protected memory and its weight", want.Slice)
	}
	return found
}

// lacks returns what the protection of a cgroup lacks, and "" if it lacks nothing.
func lacks(has cgroups.Protection, want cgroups.Protection) string {
	for _, of := range []struct {
		file      string
		has, want uint64
	}{{"memory.min", has.Min, want.Min}, {"memory.low", has.Low, want.Low}} {
		if of.has < of.want {
			return fmt.Sprintf("%s is %d; the floor is %d", of.file, of.has, of.want)
		}
	}
	return ""
}

const (
	mountsPath = "/proc/self/mounts"
	// maxMounts bounds it: a node with a thousand pods has some ten thousand mounts.
	maxMounts = 16 << 20
)

// recursive reports whether the unified hierarchy is mounted with memory_recursiveprot. Without it
// the protection of a slice does not extend to the cgroups in it.
func recursive(mounts string) bool {
	for line := range strings.Lines(mounts) {
		if fields := strings.Fields(line); len(fields) > 3 && fields[2] == "cgroup2" {
			return strings.Contains(","+fields[3]+",", ",memory_recursiveprot,")
		}
	}
	return true // unknown
}

// generationsPath is the switch of the multi-generational LRU (Linux 6.1). Debian 13 has it on.
const generationsPath = "/sys/kernel/mm/lru_gen/enabled"

// maxSysfs bounds a file of sysfs. It has the size of a page.
const maxSysfs = 64 << 10

// generations reports whether the multi-generational LRU is on. It skips a cgroup below memory.low
// once, and reclaims it then (shrink_one, mm/vmscan.c).
func generations(root host.Root) bool {
	text, err := root.ReadFile(generationsPath, maxSysfs)
	if err != nil {
		return false
	}
	features, err := strconv.ParseUint(strings.TrimSpace(string(text)), 0, 64)
	return err == nil && features&1 != 0 // the other bits are parts of it
}
