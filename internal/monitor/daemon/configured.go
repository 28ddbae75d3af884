package daemon

import (
	"sync"

	"nodepartition/internal/monitor/metrics"
	"nodepartition/internal/monitor/node"
	"nodepartition/internal/monitor/plan"
)

// configured computes the metrics of the configuration and of the budget of the node.
type configured struct {
	mu          sync.Mutex // also held while the budget is computed, so that the latest one wins
	memoryLimit uint64
}

// setConfigured records a configuration.
func (m *monitor) setConfigured(c node.Configuration) {
	state := configurationMetrics(c)
	m.metrics.SetConfiguration(state)
	m.configured.mu.Lock()
	m.configured.memoryLimit = state.MemoryLimit
	m.configured.mu.Unlock()
	m.setBudget()
}

// setBudget computes the budget, for another configuration and for another kubelet.
func (m *monitor) setBudget() {
	m.configured.mu.Lock()
	defer m.configured.mu.Unlock()
	budget, err := plan.Budget(int64(m.configured.memoryLimit))
	if err != nil {
		m.log.Debug("there are no metrics of the budget", "error", err)
		m.metrics.SetBudget(nil)
		return
	}
	m.metrics.SetBudget(&budget)
}

// configurationMetrics returns the state of a configuration for the metrics.
func configurationMetrics(c node.Configuration) metrics.Configuration {
	var state metrics.Configuration
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
	add(metrics.Lowering, c.Deferral != nil)
	if c.Thresholds != nil && !c.Off {
		state.MemoryLimit = c.Thresholds.Limit
	}
	return state
}
