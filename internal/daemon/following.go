package daemon

import (
	"sync"

	"node-partition.io/node-partition/internal/budget"
	"node-partition.io/node-partition/internal/daemon/metrics"
	"node-partition.io/node-partition/internal/node"
)

// following holds the configuration that is followed.
type following struct {
	mu sync.Mutex
	is node.Followed
}

func (f *following) now() node.Followed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.is
}

func (f *following) set(is node.Followed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.is = is
}

// problem returns the error of the configuration, nil if it is valid.
func (f *following) problem() error { return f.now().Problem }

// problemText returns the text of the error, empty for none.
func (f *following) problemText() string {
	if err := f.problem(); err != nil {
		return err.Error()
	}
	return ""
}

// meaning returns what the error of a configuration means for what is followed, empty for none.
func meaning(c node.Followed) string {
	switch {
	case c.Unknown:
		return "what to follow is not known, and nothing is moved, evicted or removed"
	case c.Problem != nil:
		return "the configuration is not valid; following the last good one of this boot"
	}
	return ""
}

// setBudget computes the budget, for another configuration and for another kubelet.
func (m *monitor) setBudget() {
	m.budgeting.Lock() // so that the latest one wins
	defer m.budgeting.Unlock()
	budget, err := node.Budget(m.options.Node, shares(m.followed.now()))
	if err != nil {
		m.log.Debug("there are no metrics of the budget", "error", err)
		m.metrics.SetBudget(nil)
		return
	}
	m.metrics.SetBudget(&budget)
}

// notePressure reads the threshold of the kubelet that has connected. What is edited later counts
// when it connects again. It reads files of a disk, which may be slow: a reconcile calls it, and no
// eviction waits for it.
func (m *monitor) notePressure() {
	budget, err := node.Budget(m.options.Node, nil)
	if err != nil || budget.PressureBytes == nil {
		m.log.Debug("the memory below which the kubelet evicts is not known", "error", err)
		return
	}
	m.pressure.Store(budget.PressureBytes)
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
