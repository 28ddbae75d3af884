package cgroups

import (
	"math"
	"testing"
)

// TestMemoryReadingCounts computes all three results from the same reading.
func TestMemoryReadingCounts(t *testing.T) {
	for name, test := range map[string]struct {
		reading                     MemoryReading
		limit                       uint64
		used, workingSet, available uint64
	}{
		"anonymous memory only":        {MemoryReading{Current: 100}, 150, 100, 100, 50},
		"page cache and slabs":         {MemoryReading{Current: 100, InactiveFile: 20, ActiveFile: 30, SlabReclaimable: 10}, 150, 45, 80, 105},
		"odd slabs are rounded up":     {MemoryReading{Current: 100, SlabReclaimable: 9}, 100, 96, 100, 4},
		"stat ahead of current":        {MemoryReading{Current: 10, InactiveFile: 20, ActiveFile: 30}, 150, 0, 0, 150},
		"above the limit":              {MemoryReading{Current: 200}, 150, 200, 200, 0},
		"no limit":                     {MemoryReading{Current: 1}, Unlimited, 1, 1, math.MaxUint64 - 1},
		"all page cache is protected":  {MemoryReading{Current: 100, InactiveFile: 20, ActiveFile: 30, Protected: 50}, 150, 100, 80, 50},
		"some page cache is protected": {MemoryReading{Current: 100, InactiveFile: 20, ActiveFile: 30, Protected: 40}, 150, 90, 80, 60},
		"more protected than there is": {MemoryReading{Current: 100, ActiveFile: 30, Protected: 40}, 150, 100, 100, 50},
		"its own limit does not count": {MemoryReading{Current: 100, Max: 120}, 150, 100, 100, 50},
	} {
		t.Run(name, func(t *testing.T) {
			r := test.reading
			if used, workingSet, available := r.Used(), r.WorkingSet(), r.Available(test.limit); used != test.used || workingSet != test.workingSet ||
				available != test.available {
				t.Errorf("used %d, working set %d, available %d; want %d, %d, %d", used, workingSet, available, test.used, test.workingSet, test.available)
			}
		})
	}
}
