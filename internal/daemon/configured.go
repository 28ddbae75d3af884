package daemon

import (
	"sync"

	"node-partition.io/node-partition/internal/budget"
	"node-partition.io/node-partition/internal/daemon/metrics"
	"node-partition.io/node-partition/internal/node"
)

// configured computes the metrics of the configuration and of the budget of the node.
type configured struct {
	mu       sync.Mutex // also held while the budget is computed, so that the latest one wins
	followed node.Followed
}

// now returns the configuration that is followed.
func (c *configured) now() node.Followed {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.followed
}

// setConfigured records a configuration.
func (m *monitor) setConfigured(c node.Followed) {
	m.configured.mu.Lock()
	m.metrics.SetConfiguration(c.Decision, problemsOf(c)...)
	m.configured.followed = c
	m.configured.mu.Unlock()
	m.setBudget()
}

// setBudget computes the budget, for another configuration and for another kubelet.
func (m *monitor) setBudget() {
	m.configured.mu.Lock()
	defer m.configured.mu.Unlock()
	budget, err := node.Budget(m.options.Node, shares(m.configured.followed))
	if err != nil {
		m.log.Debug("there are no metrics of the budget", "error", err)
		m.metrics.SetBudget(nil)
		return
	}
	m.metrics.SetBudget(&budget)
}

// shares returns the memory limits that are followed, for the budget.
func shares(c node.Followed) []budget.Partition {
	list := make([]budget.Partition, 0, len(c.Partitions))
	for _, p := range c.Partitions {
		share := budget.Partition{Name: p.Name}
		if p.Eviction != nil {
			share.MemoryBytes = int64(p.Eviction.Limit)
		}
		list = append(list, share)
	}
	return list
}

// problemsOf returns the problems of a configuration for the metrics.
func problemsOf(c node.Followed) []metrics.Problem {
	var problems []metrics.Problem
	if c.Problem != nil {
		problems = append(problems, metrics.Refused)
	}
	if c.KubeletsFile {
		problems = append(problems, metrics.KubeletsFile)
	}
	return problems
}
