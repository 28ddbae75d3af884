package node

import (
	"testing"

	"node-partition.io/node-partition/internal/budget"
	"node-partition.io/node-partition/internal/host"
)

// TestBudget: the budget of the machine that runs this test, whose kubelet, if there is one, does
// not matter.
func TestBudget(t *testing.T) {
	t.Parallel()
	const limit = 64 << 20
	with, err := Budget(host.This(), []budget.Partition{{Name: "system", Resources: budget.Resources{MemoryBytes: limit}}})
	if err != nil {
		t.Fatal(err)
	}
	without, err := Budget(host.This(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if with.Capacity.MemoryBytes <= 0 || len(with.Partitions) != 1 || with.Partitions[0].MemoryBytes != limit || with.Allocatable.MemoryBytes != without.Allocatable.MemoryBytes {
		t.Errorf("%+v", with)
	}
	if taken := without.Remainder.MemoryBytes - with.Remainder.MemoryBytes; taken != limit {
		t.Errorf("the partition takes %d bytes from user pods; want %d", taken, limit)
	}
}
