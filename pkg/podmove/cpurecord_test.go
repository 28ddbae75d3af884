package podmove

import (
	"maps"
	"testing"
)

// TestCPURecordUntil: while a pass is carried out, which may fail, only what it changes has the
// values of earlier passes. Another step that fails for days must not keep wrong ones.
func TestCPURecordUntil(t *testing.T) {
	t.Parallel()
	old, now := CPUTime{Weight: 16}, CPUTime{Weight: 39}
	before := CPURecord{Scopes: map[string]CPUTime{"changes": old, "is there": old, "gone": old}}
	next := CPURecord{Scopes: map[string]CPUTime{"changes": now, "is there": now, "new": now}}
	got := before.until(next, []ScopeSpec{{"changes", now}, {"new", now}}).Scopes
	if want := map[string]CPUTime{"changes": old, "is there": now, "new": now}; !maps.Equal(got, want) {
		t.Errorf("%+v; want %+v", got, want)
	}
	if next.Scopes["changes"] != now {
		t.Error("the record after the pass has changed")
	}
}
