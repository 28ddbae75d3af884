package metrics

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"node-partition.io/node-partition/internal/budget"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// Problem is a problem of the configuration of the node.
type Problem string

// The problems.
const (
	// Refused means that the files are not valid, and that the last good configuration of this boot is
	// followed.
	Refused Problem = "refused"
	// KubeletsFile means that the section is in the kubelet's own configuration.
	KubeletsFile Problem = "kubelets-file"
)

// problems lists all problems.
var problems = [...]Problem{Refused, KubeletsFile}

// configurationCollector collects the state of the configuration, and the budget of the node. It
// has no metrics before the first configuration.
type configurationCollector struct {
	described
	partitions *series

	problem, section, trial, limit, lowering, memory *prometheus.Desc

	mu       sync.Mutex
	config   *decision.Decision
	problems []Problem
	budget   *budget.Budget
}

func newConfigurationCollector(partitions *series) *configurationCollector {
	c := &configurationCollector{partitions: partitions}
	c.problem = c.desc(prefix+"configuration_problem", "1 while the configuration has a problem, else 0.", "problem")
	c.section = c.desc(prefix+"section_info",
		"The section that is followed, by the first 12 digits of the SHA-256 of its file; the value is 1.", "hash")
	c.trial = c.desc(prefix+"trial", "1 while the section that is followed is on trial, else 0.")
	c.limit = c.desc(prefix+"configured_memory_limit_bytes",
		"Limit that the configuration sets for the memory of a partition; absent if memoryLimit is not set.", "partition")
	c.lowering = c.desc(prefix+"memory_limit_lowering",
		"1 while a lowered limit of a partition is not in force yet, because the partition uses more; else 0.", "partition")
	c.memory = c.desc(prefix+"budget_memory_bytes",
		"Memory of the node, and the parts of it that are reserved, allocatable, of the partitions together, and left for user pods.",
		"part")
	return c
}

// SetConfiguration records the configuration that is followed from now on, and its problems.
func (m *Metrics) SetConfiguration(c decision.Decision, problems ...Problem) {
	m.configuration.mu.Lock()
	defer m.configuration.mu.Unlock()
	m.configuration.config, m.configuration.problems = &c, problems
}

// workloads returns the workload types of the configuration that is followed.
func (c *configurationCollector) workloads() []partition.Workload {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.config == nil {
		return nil
	}
	return c.config.Workloads
}

// SetBudget records the budget of the node; nil if it is not known.
func (m *Metrics) SetBudget(b *budget.Budget) {
	m.configuration.mu.Lock()
	defer m.configuration.mu.Unlock()
	m.configuration.budget = b
}

// Collect implements prometheus.Collector.
func (c *configurationCollector) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	config, has, nodes := c.config, c.problems, c.budget
	c.mu.Unlock()
	if config != nil {
		for _, problem := range problems {
			send(to, c.problem, prometheus.GaugeValue, number(slices.Contains(has, problem)), string(problem))
		}
		if config.Section != "" {
			send(to, c.section, prometheus.GaugeValue, 1, partition.SectionValue(config.Section))
		}
		send(to, c.trial, prometheus.GaugeValue, number(config.Trial))
		for name := range c.partitions.all() {
			c.partition(to, config.Of(name))
		}
	}
	if nodes != nil {
		c.parts(to, nodes)
	}
}

func (c *configurationCollector) partition(to chan<- prometheus.Metric, p decision.Partition) {
	if p.Eviction != nil && p.Eviction.Limit > 0 {
		send(to, c.limit, prometheus.GaugeValue, float64(p.Eviction.Limit), string(p.Name))
	}
	send(to, c.lowering, prometheus.GaugeValue, number(p.Deferral != nil), string(p.Name))
}

// number returns 1 for what is so.
func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// parts collects the parts of the node's memory. The partitions are one part, because the parts add
// up.
func (c *configurationCollector) parts(to chan<- prometheus.Metric, nodes *budget.Budget) {
	var partitions int64
	for i := range nodes.Partitions {
		partitions += nodes.Partitions[i].MemoryBytes
	}
	for _, part := range []struct {
		name  string
		bytes int64
	}{
		{"capacity", nodes.Capacity.MemoryBytes},
		{"kube-reserved", nodes.KubeReserved.MemoryBytes},
		{"system-reserved", nodes.SystemReserved.MemoryBytes},
		{"eviction-threshold", nodes.EvictionThreshold.MemoryBytes},
		{"huge-pages", nodes.HugePagesBytes},
		{"allocatable", nodes.Allocatable.MemoryBytes},
		{"partitions", partitions},
		{"left", nodes.Remainder.MemoryBytes},
	} {
		send(to, c.memory, prometheus.GaugeValue, float64(part.bytes), part.name)
	}
}
