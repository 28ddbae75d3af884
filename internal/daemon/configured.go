package daemon

import (
	"sync"

	"nodepartition/internal/budget"
	"nodepartition/internal/daemon/metrics"
	"nodepartition/internal/node"
	"nodepartition/internal/node/allocatable"
	"nodepartition/internal/nodelabel"
	"nodepartition/internal/unitname"
)

// configured computes the metrics of the configuration and of the budget of the node.
type configured struct {
	mu         sync.Mutex // also held while the budget is computed, so that the latest one wins
	partitions []budget.Share
	section    string // the digest of the sections in force; empty if it is not known
	onTrial    bool
}

// digest returns the digest of the sections in force.
func (c *configured) digest() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.section
}

// setConfigured records a configuration.
func (m *monitor) setConfigured(c node.Followed) {
	m.configured.mu.Lock()
	state := configurationMetrics(c, m.configured.onTrial)
	m.metrics.SetConfiguration(state)
	m.configured.partitions, m.configured.section, m.configured.onTrial = shares(c), c.Section, state.OnTrial
	m.configured.mu.Unlock()
	m.setBudget()
}

// setBudget computes the budget, for another configuration and for another kubelet.
func (m *monitor) setBudget() {
	m.configured.mu.Lock()
	defer m.configured.mu.Unlock()
	budget, err := allocatable.Budget(m.options.Node, m.configured.partitions)
	if err != nil {
		m.log.Debug("there are no metrics of the budget", "error", err)
		m.metrics.SetBudget(nil)
		return
	}
	m.metrics.SetBudget(&budget)
}

// shares returns the memory limits that are followed, for the budget.
func shares(c node.Followed) []budget.Share {
	list := make([]budget.Share, 0, len(c.Partitions))
	for _, p := range c.Partitions {
		share := budget.Share{Name: p.Name}
		if p.Thresholds != nil && !p.Off {
			share.MemoryLimit = int64(p.Thresholds.Limit)
		}
		list = append(list, share)
	}
	return list
}

// configurationMetrics returns the state of a configuration for the metrics. onTrial is from the
// configuration before it: while the files are not what is followed, they do not say whether a
// trial runs.
func configurationMetrics(c node.Followed, onTrial bool) metrics.Configured {
	state := metrics.Configured{Section: nodelabel.SectionValue(c.Section)}
	switch {
	case c.Problem != nil || c.NotApplied:
		state.OnTrial = onTrial
	case c.Desired != nil && c.Desired.Config != nil:
		state.OnTrial = c.Desired.Kubelet.OnTrial()
	}
	add := func(problem metrics.Problem, is bool) {
		if is {
			state.Problems = append(state.Problems, problem)
		}
	}
	add(metrics.Refused, c.Problem != nil)
	add(metrics.NotApplied, c.NotApplied)
	if c.Desired != nil {
		add(metrics.KubeletsFile, c.Desired.Config != nil && c.Desired.KubeletsFile != "")
	}
	state.Workloads = c.Workloads
	state.Partitions = map[unitname.PartitionName]metrics.ConfiguredPartition{}
	for _, p := range c.Partitions {
		of := metrics.ConfiguredPartition{Lowering: p.Deferral != nil}
		if p.Thresholds != nil && !p.Off {
			of.MemoryLimit = p.Thresholds.Limit
		}
		state.Partitions[p.Name] = of
	}
	return state
}
