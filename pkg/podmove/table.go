package podmove

import (
	"maps"
	"sync"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// Table holds the state that placement shares with eviction and the metrics: the pods that the last
// pass found, its report, and the pods that are being evicted. Placement writes the first two,
// eviction the third. The zero value is an empty table.
type Table struct {
	mu       sync.Mutex
	pods     []Pod
	report   report.Report
	evicting map[partition.Name]map[string]bool
}

// Pods returns the pods that the last reconcile found. They must not be changed.
func (t *Table) Pods() []Pod {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pods
}

// setPods replaces the pods.
func (t *Table) setPods(pods []Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pods = pods
}

// Report returns the report of the last reconcile. Its Time is zero before the end of the first.
func (t *Table) Report() report.Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.report
}

// setReport replaces the report.
func (t *Table) setReport(r report.Report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report = r
}

// isEvicting reports whether a pod is being evicted for good, or was a moment ago.
func (t *Table) isEvicting(uid string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, uids := range t.evicting {
		if uids[uid] {
			return true
		}
	}
	return false
}

// SetEvicting replaces the UIDs of the pods that are being evicted from a partition. Those of other
// partitions stay.
func (t *Table) SetEvicting(from partition.Name, uids map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.evicting == nil {
		t.evicting = map[partition.Name]map[string]bool{}
	}
	t.evicting[from] = maps.Clone(uids)
}
