package daemon

import (
	"testing"
	"time"

	"nodepartition/internal/unitname"
	"nodepartition/tests/fakenode"
)

// TestRecent: the page has the last hours of a history that is kept.
func TestRecent(t *testing.T) {
	t.Parallel()
	n := fakenode.Guarded(t)
	m := &monitor{shared: shared{options: Options{Options: n.Options()}}}
	if m.recent() != nil {
		t.Error("none is kept")
	}
	n.Record(20*time.Hour, false, nil)
	m.history = &history{}
	h, err := m.recent()(t.Context(), time.Now().Add(-6*time.Hour))
	if err != nil || len(h.Minutes) < 359 || len(h.Minutes) > 12*60 {
		t.Errorf("%d minutes, %v", len(h.Minutes), err)
	}
}

// TestPlacementBeforePass: before the first pass the places of the pods are not known. That is not
// a node without pods.
func TestPlacementBeforePass(t *testing.T) {
	t.Parallel()
	m := &monitor{}
	if placed, known := m.placement(unitname.System); known {
		t.Errorf("%+v", placed)
	}
}
