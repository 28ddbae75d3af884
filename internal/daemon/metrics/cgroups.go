package metrics

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
)

// reader reads cgroups by the names of their slices. The series of a cgroup that is gone, or cannot
// be read, are absent.
type reader struct {
	cgroups cgroups.FS
	failed  func(error)
}

func (r reader) stat(slice string) (cgroups.Stat, error) {
	stat, err := r.cgroups.Stat(partition.CgroupPath(slice))
	return stat, r.note(err)
}

// memory returns an error that is fs.ErrNotExist for a slice without the memory controller, too.
func (r reader) memory(slice string) (cgroups.MemoryReading, error) {
	memory, err := r.cgroups.Memory(partition.CgroupPath(slice))
	return memory, r.note(err)
}

func (r reader) note(err error) error {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.failed(err)
	}
	return err
}

// sliceCollector collects the metrics of the slices of each partition, and the KEP's metrics of the
// partitions and of the default one.
type sliceCollector struct {
	described
	reader
	partitions                             *series
	metrics                                []sliceMetric
	pressure, usage, limit, host, hostUsed *prometheus.Desc
}

func newSliceCollector(r reader, partitions *series) *sliceCollector {
	c := &sliceCollector{reader: r, partitions: partitions}
	c.metrics = sliceMetrics(&c.described)
	c.pressure = c.desc(prefix+"pressure_seconds_total",
		"Time in which some or all (full) processes of a slice waited for a resource (PSI).",
		"partition", "slice", "resource", "kind")
	c.usage = c.desc("kubelet_partition_memory_usage_bytes",
		"Memory that the pods of a partition use, page cache included: memory.current of its slice (KEP-5894).", "partition")
	c.limit = c.desc("kubelet_partition_memory_limit_bytes",
		"Memory that the pods of a partition may use; absent without a limit. The limit of default applies to all together (KEP-5894).",
		"partition")
	c.host = c.desc(prefix+"host_memory_working_set_bytes",
		"Memory that a slice outside of kubepods.slice uses, without inactive page cache: services and users of the node.", "slice")
	c.hostUsed = c.desc(prefix+"host_memory_used_bytes",
		"Memory that a slice outside of kubepods.slice uses and the kernel cannot reclaim: without page cache and half of the slabs.",
		"slice")
	return c
}

// Collect implements prometheus.Collector.
func (c *sliceCollector) Collect(to chan<- prometheus.Metric) {
	c.outside(to)
	var used uint64 // by all partitions
	var failed bool
	for name, polls := range c.partitions.all() {
		memory, err := c.slices(to, name, polls)
		used += memory
		failed = failed || err != nil && !errors.Is(err, fs.ErrNotExist)
	}
	if failed {
		return
	}
	// The default partition is the rest. The cgroups are read one after the other, so the difference
	// could be negative.
	if pods, err := c.stat(partition.Default.Slice()); err == nil {
		c.partition(to, string(partition.Default), pods, pods.MemoryCurrent-min(used, pods.MemoryCurrent))
	}
}

// slices collects the slices of a partition, and returns the memory of the partition.
func (c *sliceCollector) slices(to chan<- prometheus.Metric, p partition.Name, polls Polls) (uint64, error) {
	name, slices := string(p), p.Slices()
	whole, err := c.stat(slices[0])
	if err == nil {
		c.slice(to, name, slices[0], whole)
		if report := polls.Report(); report.Burst > 0 { // memory.max has room for it
			whole.MemoryMax = report.Limit - report.Lent
		}
		c.partition(to, name, whole, whole.MemoryCurrent)
	}
	for _, slice := range slices[1:] {
		if stat, err := c.stat(slice); err == nil {
			c.slice(to, name, slice, stat)
		}
	}
	return whole.MemoryCurrent, err
}

// outside collects the slices at the top other than kubepods.slice. kubeReserved and systemReserved
// are for these.
func (c *sliceCollector) outside(to chan<- prometheus.Metric) {
	names, err := c.cgroups.Children("")
	if c.note(err) != nil {
		return
	}
	for _, name := range names {
		if name == partition.Default.Slice() || !strings.HasSuffix(name, ".slice") {
			continue
		}
		if memory, err := c.memory(name); err == nil {
			send(to, c.host, prometheus.GaugeValue, float64(memory.WorkingSet()), name)
			send(to, c.hostUsed, prometheus.GaugeValue, float64(memory.Used()), name)
		}
	}
}

func (c *sliceCollector) partition(
	to chan<- prometheus.Metric,
	partition string,
	stat cgroups.Stat,
	usage uint64,
) {
	if !stat.HasMemory {
		return
	}
	send(to, c.usage, prometheus.GaugeValue, float64(usage), partition)
	if stat.MemoryMax != cgroups.Unlimited {
		send(to, c.limit, prometheus.GaugeValue, float64(stat.MemoryMax), partition)
	}
}

func (c *sliceCollector) slice(to chan<- prometheus.Metric, partition, slice string, stat cgroups.Stat) {
	for _, m := range c.metrics {
		if value, ok := m.value(stat); ok {
			send(to, m.desc, m.kind, value, partition, slice)
		}
	}
	c.waited(to, partition, slice, "memory", stat.MemoryPressure)
	c.waited(to, partition, slice, "cpu", stat.CPUPressure)
	c.waited(to, partition, slice, "io", stat.IOPressure)
}

func (c *sliceCollector) waited(
	to chan<- prometheus.Metric,
	partition, slice, resource string,
	p cgroups.Pressure,
) {
	if p.Known {
		send(to, c.pressure, prometheus.CounterValue, p.Some.Seconds(), partition, slice, resource, "some")
		send(to, c.pressure, prometheus.CounterValue, p.Full.Seconds(), partition, slice, resource, "full")
	}
}
