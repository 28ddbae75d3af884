package config

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/meminfo"
	"nodepartition/internal/oneline"
)

// Floor is memory that the kernel leaves to a cgroup while others need memory, in bytes and whole
// pages. Its zero value protects nothing.
type Floor struct {
	// Min is never reclaimed (memory.min). Low is reclaimed only if nothing else is left
	// (memory.low).
	Min, Low uint64
}

// most returns the part of the memory that the floor covers in one of the two ways.
func (f Floor) most() uint64 { return max(f.Min, f.Low) }

// newFloor parses two settings of a floor.
func newFloor(minKey, minValue, lowKey, lowValue string, bad func(key, value, format string, args ...any)) Floor {
	var f Floor
	for _, s := range []struct {
		key, value string
		bytes      *uint64
	}{{minKey, minValue, &f.Min}, {lowKey, lowValue, &f.Low}} {
		if s.value == "" {
			continue
		}
		bytes, err := parseSetting(s.value)
		if err != nil {
			bad(s.key, s.value, "%v", err)
			continue
		}
		*s.bytes = uint64(bytes)
	}
	return f
}

// parseSetting parses a quantity of bytes, 0 or more, and rounds it down to whole pages, as the
// kernel does (page_counter_memparse).
func parseSetting(value string) (int64, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return 0, err
	}
	bytes, err := parseBytes(raw, 0)
	return wholePages(bytes), err
}

func wholePages(bytes int64) int64 { return bytes &^ (int64(os.Getpagesize()) - 1) }

// smallSetting in bytes is less than any use of these settings.
const smallSetting = 1 << 20

// isTiny reports whether a valid setting is above 0 and below smallSetting.
func isTiny(value string) bool {
	raw, err := json.Marshal(value)
	if err != nil {
		return false
	}
	bytes, err := parseBytes(raw, 1)
	return err == nil && bytes < smallSetting
}

// PartitionSettings holds the settings of a partition that its section has no fields for.
type PartitionSettings struct {
	// Floor is the protected memory of the partition.
	Floor Floor
	// SwapMax bounds the swap space that the partition may use, in bytes; nil for no bound.
	SwapMax *int64
}

// newPartitionSettings validates the settings of the partition. The error lists every problem.
func newPartitionSettings(settings kubeletconfig.PartitionSettings) (PartitionSettings, error) {
	var list problems
	bad := func(key, value, format string, args ...any) {
		list.add(kubeletconfig.SettingsPath, key, quote(value), format, args...)
	}
	s := PartitionSettings{Floor: newFloor(kubeletconfig.PartitionMemoryMinKey, settings.MemoryMin,
		kubeletconfig.PartitionMemoryLowKey, settings.MemoryLow, bad)}
	if value := settings.SwapMax; value != "" {
		bytes, err := parseSetting(value)
		if err != nil {
			bad(kubeletconfig.SwapMaxKey, value, "%v, or 0 for no swap", err)
		}
		if bytes < wholePages(math.MaxInt64) { // which the kernel takes for no bound (PAGE_COUNTER_MAX)
			s.SwapMax = &bytes
		}
	}
	if value := settings.Watch; value != "" && value != kubeletconfig.WatchOff && value != "yes" {
		bad(kubeletconfig.WatchKey, value, "is neither yes nor no")
	}
	return s, list.err()
}

// limitFloor lowers the floor of the partition to its limit, and warns. More would protect nothing
// in the partition. It does not return an error: the two are in different files, and a node whose
// limit was lowered keeps its partition.
func (c *Config) limitFloor(p *Partition, warn func(key, format string, args ...any)) {
	if p.MemoryLimit == 0 {
		return
	}
	limit := wholePages(p.MemoryLimit)
	for _, of := range []struct {
		key, value string
		bytes      *uint64
	}{
		{kubeletconfig.PartitionMemoryMinKey, c.Kubelet.Partition.MemoryMin, &p.Floor.Min},
		{kubeletconfig.PartitionMemoryLowKey, c.Kubelet.Partition.MemoryLow, &p.Floor.Low},
	} {
		if *of.bytes > uint64(limit) {
			warn(of.key, "%s is above memoryLimit of %s: protecting that, %d bytes", quote(of.value), kubeletconfig.SectionField, limit)
			*of.bytes = uint64(limit)
		}
	}
}

// placeFloors completes the settings of the system partition once it is known, and compares the
// floors with the node's memory. Other partitions have no such settings.
func (c *Config) placeFloors(root hostfs.FS, s PartitionSettings) {
	warn := func(key, format string, args ...any) {
		c.Warnings = append(c.Warnings, kubeletconfig.SettingsPath+": "+key+": "+fmt.Sprintf(format, args...))
	}
	settings := c.Kubelet.Partition
	if key := settings.Unknown; key != "" {
		warn(oneline.ASCII(key), "unknown setting, ignoring; known are %s", strings.Join(settings.Keys(), ", "))
	}
	var floor Floor
	p := c.System()
	if p != nil {
		p.PartitionSettings = s
		c.limitFloor(p, warn)
		floor = p.Floor
	}
	for _, of := range []struct {
		key, value string
		applies    bool
	}{
		{kubeletconfig.PartitionMemoryMinKey, settings.MemoryMin, p != nil},
		{kubeletconfig.PartitionMemoryLowKey, settings.MemoryLow, p != nil},
		{kubeletconfig.SwapMaxKey, settings.SwapMax, p != nil},
		{kubeletconfig.ServicesMemoryMinKey, c.Kubelet.Services.MemoryMin, true},
		{kubeletconfig.ServicesMemoryLowKey, c.Kubelet.Services.MemoryLow, true},
	} {
		switch {
		case of.value == "":
		case !of.applies:
			warn(of.key, "does nothing without %s", kubeletconfig.SectionField)
		case isTiny(of.value):
			warn(of.key, "%s is less than %d MiB; is a unit such as Mi missing?", quote(of.value), smallSetting>>20)
		}
	}
	for _, of := range []struct {
		key   string
		floor Floor
	}{
		{kubeletconfig.PartitionMemoryLowKey, floor},
		{kubeletconfig.ServicesMemoryLowKey, c.Services.Floor},
	} {
		if of.floor.Low > 0 && of.floor.Low <= of.floor.Min {
			warn(of.key, "does nothing: it is not above the %d bytes that are never reclaimed", of.floor.Min)
		}
	}
	sum := floor.most() + c.Services.Floor.most()
	if sum == 0 {
		return
	}
	// A node whose size cannot be read has no partition.
	if total, err := meminfo.Total(root); err == nil && sum >= uint64(total) {
		c.Warnings = append(c.Warnings, fmt.Sprintf(
			"%s: the protected memory of partition and services, %d bytes, is not below the node's memory of %d bytes: "+
				"the kernel has nothing else to reclaim, and kills; want less", kubeletconfig.SettingsPath, sum, total))
	}
}
