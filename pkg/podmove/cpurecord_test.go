package podmove

import (
	"maps"
	"testing"
)

// TestCPURecordUntil: while a reconcile is carried out, which may fail, only what it changes has
// the values of earlier passes. Another step that fails for days must not keep wrong ones.
func TestCPURecordUntil(t *testing.T) {
	t.Parallel()
	old, now := CPUTime{Weight: 16}, CPUTime{Weight: 39}
	scope := func(container string) string { return "cri-containerd-" + container + ".scope" }
	before := CPURecord{Scopes: map[string]CPUTime{scope("changes"): old, scope("stays"): old, scope("gone"): old}}
	next := CPURecord{Scopes: map[string]CPUTime{scope("changes"): now, scope("stays"): now, scope("new"): now}}
	got := before.until(next, []ScopeSpec{{scope("changes"), now}, {scope("new"), now}}).Scopes
	if want := map[string]CPUTime{scope("changes"): old, scope("stays"): now, scope("new"): now}; !maps.Equal(got, want) {
		t.Errorf("%+v; want %+v", got, want)
	}
	moved := CPURecord{Scopes: map[string]CPUTime{scopeA: old}}
	next = CPURecord{Scopes: map[string]CPUTime{"partition-" + scopeA: now}}
	got = moved.until(next, []ScopeSpec{{"partition-" + scopeA, now}}).Scopes
	if want := map[string]CPUTime{"partition-" + scopeA: old}; !maps.Equal(got, want) {
		t.Errorf("after a live move: %+v; want %+v", got, want)
	}
}
