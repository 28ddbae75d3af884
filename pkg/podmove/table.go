package podmove

import (
	"maps"
	"sync"
)

// Table holds the state that placement and eviction share: the pods that the last pass found, and
// the pods that are being evicted. Placement writes the first, eviction the second, and both read
// both. The zero value is an empty table.
type Table struct {
	mu       sync.Mutex
	pods     []Pod
	evicting map[string]bool
}

// Pods returns the pods that the last pass found. They must not be changed.
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

// isEvicting reports whether a pod is being evicted for good, or was a moment ago.
func (t *Table) isEvicting(uid string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.evicting[uid]
}

// SetEvicting replaces the UIDs of the pods that are being evicted.
func (t *Table) SetEvicting(uids map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.evicting = maps.Clone(uids)
}
