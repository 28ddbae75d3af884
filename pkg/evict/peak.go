package evict

import (
	"sync"
	"time"
)

const (
	// PeakWindow is the time that Report.UsedPeak is about. Prometheus' queries look back as far, so
	// that no scrape which they would find misses a peak: not after a lost one, and not beside another
	// Prometheus, which a maximum since the last scrape would serve in turns.
	PeakWindow = 5 * time.Minute
	// peakSlot is the part of it that is forgotten at once.
	peakSlot = 10 * time.Second
)

// peaks holds the largest usage of each of the last slots of time, as eviction counts it
// (cgroups.MemoryReading.Used), in bytes. Reading it changes nothing.
type peaks struct {
	mu sync.Mutex
	// began is the beginning of the first slot. Times are compared by Go's monotonic clock, so that a
	// clock that is set makes no slot long.
	began time.Time
	// last is the number of the newest slot, which may have begun just now: one more slot than the
	// window has keeps the window whole.
	last  int
	slots [PeakWindow/peakSlot + 1]uint64
}

// Peak returns the largest usage of a time up to now, PeakWindow at most, in bytes, and false while
// there is no reading. It costs none: polls have noted them. Each poll near the threshold reads
// memory.stat, on which the usage depends, and far from it one in statInterval.
func (m *Manager) Peak(window time.Duration) (used uint64, noted bool) {
	return m.peaks.most(time.Now(), window), !m.Report().Time.IsZero()
}

// note adds a reading of a moment.
func (p *peaks) note(now time.Time, used uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(now)
	slot := &p.slots[p.last%len(p.slots)]
	*slot = max(*slot, used)
}

// most returns the largest usage of so long a time, and of peakSlot more at most.
func (p *peaks) most(now time.Time, window time.Duration) (most uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(now)
	for i := range min(int((window+peakSlot-1)/peakSlot)+1, len(p.slots)) {
		most = max(most, p.slots[(p.last+len(p.slots)-i)%len(p.slots)])
	}
	return most
}

// forget begins the slots up to now.
func (p *peaks) forget(now time.Time) {
	if p.began.IsZero() {
		p.began = now
	}
	present := int(now.Sub(p.began) / peakSlot)
	//guard: a peak is forgotten slot by slot
	for begun := 0; p.last < present && begun < len(p.slots); begun++ {
		p.last++
		p.slots[p.last%len(p.slots)] = 0
	}
	p.last = max(p.last, present)
}
