package evict

import (
	"fmt"
	"time"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/thresholds"
)

// Report is the present state.
type Report struct {
	Partition partition.Name `json:"partition"`
	// Time of the poll; zero before the first.
	Time time.Time `json:"time"`
	// Memory of the partition, and the memory Available below its limit, in bytes.
	Memory    cgroups.MemoryReading `json:"memory"`
	Available uint64                `json:"available"`
	// UsedPeak is the largest usage in bytes (cgroups.MemoryReading.Used) of the last PeakWindow, by
	// the readings that this program has taken in it.
	UsedPeak uint64 `json:"usedPeak"`
	// Ownerless is the memory in bytes that belongs to no pod that runs in the partition (Ownerless).
	// While no threshold is crossed it may be minutes old.
	Ownerless uint64 `json:"ownerless"`
	// Thresholds holds the thresholds in force. Its Limit is the limit that is guarded.
	thresholds.Thresholds
	// Lent is the part of that limit that the node lends, in bytes.
	Lent uint64 `json:"lent,omitempty"`
	// Crossed is the threshold that is crossed. NoCandidate means that there is no candidate.
	Crossed     Threshold `json:"crossed,omitempty"`
	NoCandidate bool      `json:"noCandidate,omitempty"`
}

// Report returns the result of the last poll.
func (m *Manager) Report() Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.report
}

// publish stores the result of a poll for Report, and notifies Events.
func (m *Manager) publish(s Situation, d Decision) {
	report := Report{
		Partition: m.Partition, Time: s.Now, Memory: s.Memory, Available: d.Available, Thresholds: s.Effective().Thresholds,
		UsedPeak: m.peaks.most(s.Now, PeakWindow), Ownerless: m.ownerless.bytes,
		Crossed: d.Crossed, NoCandidate: d.NoCandidate,
	}
	report.Limit, report.Lent = s.limit(), s.Config.Lent(s.limit())
	m.mu.Lock()
	if !m.watch.statAt.Equal(s.Now) && !m.report.Time.IsZero() {
		// Without memory.stat page cache would count as used. The limit is of now.
		report.Memory = m.report.Memory
		report.Memory.Max = s.Memory.Max
		//guard: available memory is below the limit that is reported
		report.Available = report.Memory.Available(report.Limit)
	}
	m.report = report
	m.mu.Unlock()
	if d.NoCandidate && s.Now.Sub(m.noCandidateAt) >= retryInterval {
		m.noCandidateAt = s.Now
		m.Events.NoCandidate(d)
	}
	m.warnRaised(s)
}

// warnRaised warns if the limit in force has been above the configured one, or none, for
// retryInterval. That is normal for a moment after the limit was lowered, until systemd has applied
// it.
func (m *Manager) warnRaised(s Situation) {
	c := s.Config
	if c.Off || c.Lowering || c.Limit == 0 || s.Memory.Max <= c.Max()+rounding {
		m.raisedAt = time.Time{}
		return
	}
	if m.raisedAt.IsZero() {
		m.raisedAt = s.Now
	}
	switch {
	case s.Now.Sub(m.raisedAt) < retryInterval:
	case s.unlimited():
		m.warnings.warn(
			fmt.Errorf(
				"memory.max of %s is max, and the configuration has %d bytes: the partition has no limit, and no pod is evicted; "+
					"systemctl daemon-reload sets it, after systemctl revert if it was taken away by hand (systemctl set-property)",
				m.slice,
				c.Max(),
			),
		)
	default:
		m.warnings.warn(
			fmt.Errorf(
				"memory.max of %s is %d bytes, above the %d of the configuration: guarding the limit in force, which was raised "+
					"(systemctl set-property); systemctl revert takes that back",
				m.slice,
				s.Memory.Max,
				c.Max(),
			),
		)
	}
}
