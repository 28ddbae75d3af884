package daemon

import (
	"testing"
)

// TestPlacementBeforePass: before the first pass the places of the pods are not known. That is not
// a node without pods.
func TestPlacementBeforePass(t *testing.T) {
	t.Parallel()
	m := &monitor{}
	if placed, known := m.placement(); known {
		t.Errorf("%+v", placed)
	}
}
