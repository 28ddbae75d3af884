package plan

import "testing"

// TestBudget: the budget of the machine that runs this test, whose kubelet, if there is one, does
// not matter.
func TestBudget(t *testing.T) {
	t.Parallel()
	const limit = 64 << 20
	with, err := Budget(limit)
	if err != nil {
		t.Fatal(err)
	}
	without, err := Budget(0)
	if err != nil {
		t.Fatal(err)
	}
	if with.Capacity.MemoryBytes <= 0 || with.Partition.MemoryBytes != limit || with.Allocatable.MemoryBytes != without.Allocatable.MemoryBytes {
		t.Errorf("%+v", with)
	}
	if taken := without.Remainder.MemoryBytes - with.Remainder.MemoryBytes; taken != limit {
		t.Errorf("the partition takes %d bytes from user pods; want %d", taken, limit)
	}
}
