//go:build node

package onnode

import (
	"math"
	"testing"

	"node-partition.io/node-partition/internal/systemd"
)

// TestScopeCPU sets the CPU time of a running scope. systemd removes what it keeps of that when the
// scope is gone.
func TestScopeCPU(t *testing.T) {
	c := connect(t, systemd.Options{})
	s := startScope(t, "system.slice", "busscope.scope", "sleep 1000", "CPUWeight=1")
	const cgroup = "system.slice/busscope.scope"
	for _, step := range []struct {
		weight, quota     uint64
		wantWeight, wantQ string
	}{
		{16, 500_000, "16", "50000 100000"},
		{39, 0, "39", "50000 100000"},
		{1, math.MaxUint64, "1", "max 100000"},
		{10_000, 10_000, "10000", "1000 100000"}, // the smallest quota that we set
	} {
		if err := c.SetScopeCPU(t.Context(), s.name, step.weight, step.quota); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time after a reload
			if weight, quota := file(t, cgroup, "cpu.weight"), file(t, cgroup, "cpu.max"); weight != step.wantWeight || quota != step.wantQ {
				t.Errorf("cpu.weight %s, cpu.max %s; want %s, %s", weight, quota, step.wantWeight, step.wantQ)
			}
			shell(t, "systemctl daemon-reload")
		}
	}
	if got := shell(t, "ls /run/systemd/transient/busscope.scope.d | xargs"); got != "50-CPUQuota.conf 50-CPUWeight.conf" {
		t.Errorf("what was set is in %s", got)
	}
	s.stop(t)
	if err := c.SetScopeCPU(t.Context(), s.name, 16, 0); err != nil {
		t.Errorf("of a scope that is gone: %v", err)
	}
	if left := shell(t, "find /run/systemd/system.control /run/systemd/transient -name 'busscope*' 2>/dev/null; true"); left != "" {
		t.Errorf("left behind: %s", left)
	}
}
