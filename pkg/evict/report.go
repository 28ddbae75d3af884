package evict

import (
	"fmt"
	"time"

	"nodepartition/internal/cgroupfs"
)

// Report is the present state.
type Report struct {
	// Time of the poll; zero before the first.
	Time time.Time `json:"time"`
	// Memory of the partition, its Limit, and the memory Available below that, in bytes.
	Memory    cgroupfs.MemoryReading `json:"memory"`
	Limit     uint64                 `json:"limit"`
	Available uint64                 `json:"available"`
	// Hard and Soft are the thresholds in bytes, 0 for none.
	Hard uint64 `json:"hard"`
	Soft uint64 `json:"soft"`
	// Crossed is the threshold that is crossed, Held the reason for which no pod is evicted
	// nevertheless. NoCandidate means that there is no candidate.
	Crossed     Threshold `json:"crossed,omitempty"`
	Held        Hold      `json:"held,omitempty"`
	NoCandidate bool      `json:"noCandidate,omitempty"`
}

// Report returns the result of the last poll.
func (m *Manager) Report() Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.report
}

// publish stores the result of a poll for Report, and notifies Events.
func (m *Manager) publish(s Snapshot, d Decision) {
	c := s.Effective()
	report := Report{
		Time: s.Now, Memory: s.Memory, Limit: s.limit(), Available: d.Available, Hard: c.Hard, Soft: c.Soft,
		Crossed: d.Crossed, Held: d.Held, NoCandidate: d.NoCandidate,
	}
	m.mu.Lock()
	if !m.watch.statAt.Equal(s.Now) && !m.report.Time.IsZero() {
		// Without memory.stat page cache would count as used.
		report.Memory, report.Available = m.report.Memory, m.report.Available
	}
	m.report = report
	m.mu.Unlock()
	if d.NoCandidate && s.Now.Sub(m.noCandidateAt) >= retryInterval {
		m.noCandidateAt = s.Now
		m.Events.NoCandidate(d)
	}
	m.warnRaised(s)
}

// warnRaised warns if the limit in force has been above the configured one for retryInterval. That
// is normal for a moment after the limit was lowered, until systemd has applied it.
func (m *Manager) warnRaised(s Snapshot) {
	c := s.Config
	if c.Off || c.Lowering || c.Limit == 0 || s.Memory.Max == cgroupfs.Unlimited || s.Memory.Max <= c.Limit+rounding {
		m.raisedAt = time.Time{}
		return
	}
	if m.raisedAt.IsZero() {
		m.raisedAt = s.Now
	}
	if s.Now.Sub(m.raisedAt) >= retryInterval {
		m.warnings.warn(
			fmt.Errorf(
				"memory.max of %s is %d bytes, above the %d of the configuration: guarding the limit in force, which was raised "+
					"(systemctl set-property); systemctl revert takes that back",
				m.Slice,
				s.Memory.Max,
				c.Limit,
			),
		)
	}
}
