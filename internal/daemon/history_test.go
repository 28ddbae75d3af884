package daemon

import (
	"testing"

	"nodepartition/internal/unitname"
)

// TestPlacementBeforePass: before the first pass the places of the pods are not known. That is not
// a node without pods.
func TestPlacementBeforePass(t *testing.T) {
	t.Parallel()
	m := &monitor{}
	if placed, known := m.placement(unitname.System); known {
		t.Errorf("%+v", placed)
	}
}
