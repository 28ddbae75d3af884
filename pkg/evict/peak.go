package evict

import (
	"sync"
	"time"
)

// peaks collects the largest usage as eviction counts it (cgroups.MemoryReading.Used), in bytes:
// since the last call of TakePeak, and recently.
type peaks struct {
	mu     sync.Mutex
	peak   uint64
	noted  bool
	recent recent
}

// note adds a reading of a moment.
func (p *peaks) note(now time.Time, used uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recent.note(now, used)
	p.peak, p.noted = max(p.peak, used), true
}

// TakePeak returns the largest usage since its last call, in bytes, and false if there is no
// reading. It costs none: polls have noted them. Each poll near the threshold reads memory.stat, on
// which the usage depends, and far from it one in statInterval.
func (m *Manager) TakePeak() (used uint64, noted bool) {
	p := &m.peaks
	p.mu.Lock()
	defer p.mu.Unlock()
	used, noted = p.peak, p.noted
	p.peak, p.noted = 0, false
	return used, noted
}

// used returns the largest usage of the last PeakWindow.
func (p *peaks) used(now time.Time) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.recent.most(now)
}

const (
	// PeakWindow is the time that Report.UsedPeak is about. Prometheus' queries look back as far, so
	// that no scrape which they would find misses a peak: not after a lost one, and not beside another
	// Prometheus, which a maximum since the last scrape would serve in turns.
	PeakWindow = 5 * time.Minute
	// peakSlot is the part of it that is forgotten at once.
	peakSlot = 10 * time.Second
)

// recent holds the largest usage of each of the last slots of time. Reading it changes nothing.
type recent struct {
	// began is the beginning of the first slot. Times are compared by Go's monotonic clock, so that a
	// clock that is set makes no slot long.
	began time.Time
	// last is the number of the newest slot, which may have begun just now: one more slot than the
	// window has keeps the window whole.
	last  int
	slots [PeakWindow/peakSlot + 1]uint64
}

func (r *recent) note(now time.Time, used uint64) {
	r.forget(now)
	slot := &r.slots[r.last%len(r.slots)]
	*slot = max(*slot, used)
}

func (r *recent) most(now time.Time) uint64 {
	r.forget(now)
	most := uint64(0)
	for _, used := range r.slots {
		most = max(most, used)
	}
	return most
}

// forget begins the slots up to now.
func (r *recent) forget(now time.Time) {
	if r.began.IsZero() {
		r.began = now
	}
	present := int(now.Sub(r.began) / peakSlot)
	//guard: a peak is forgotten slot by slot
	for begun := 0; r.last < present && begun < len(r.slots); begun++ {
		r.last++
		r.slots[r.last%len(r.slots)] = 0
	}
	r.last = max(r.last, present)
}
