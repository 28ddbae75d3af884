package evict

import "sync"

// Peak holds extremes of the partition's usage since the last call of TakePeak, in bytes.
type Peak struct {
	// Used is the largest and UsedLow the smallest usage as eviction counts it
	// (cgroupfs.MemoryReading.Used).
	Used, UsedLow uint64
	// Current is the largest memory.current.
	Current uint64
	// Polls counts the readings of Used. Without one the other fields are 0.
	Polls int
}

// peaks collects a Peak.
type peaks struct {
	mu   sync.Mutex
	peak Peak
}

// note adds a reading.
func (p *peaks) note(used, current uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.peak.Polls == 0 || used < p.peak.UsedLow {
		p.peak.UsedLow = used
	}
	p.peak.Used, p.peak.Current = max(p.peak.Used, used), max(p.peak.Current, current)
	p.peak.Polls++
}

// TakePeak returns the extremes since its last call. It costs no reading of the memory: polls have
// noted them. Far from the threshold a poll in a second reads memory.stat, on which Used depends.
// Near the threshold each of them does.
func (m *Manager) TakePeak() Peak {
	m.peaks.mu.Lock()
	defer m.peaks.mu.Unlock()
	peak := m.peaks.peak
	m.peaks.peak = Peak{}
	return peak
}
