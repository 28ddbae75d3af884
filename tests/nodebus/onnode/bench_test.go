package onnode

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"nodepartition/internal/systemd"
	"nodepartition/pkg/podmove/livemove"
)

// BenchmarkMove is a live move beside what it cannot do without: a StartTransientUnit with the same properties and processes.
// Both move the same container there and back; the difference is reading the settings, the control files and the rest.
func BenchmarkMove(b *testing.B) {
	c := connect(b, systemd.Options{})
	box := startContainer(b, "bench", 8, "for i in 1 2 3 4 5 6 7; do sleep 1000 & done; wait", "MemoryMax=300M", "CPUWeight=33", "CPUQuota=250%",
		"TasksMax=123", "DevicePolicy=strict", "DeviceAllow=/dev/null rwm", "DeviceAllow=/dev/zero rwm", "DeviceAllow=char-pts rwm")
	old, err := c.ScopeSettings(b.Context(), box.name)
	if err != nil {
		b.Fatal(err)
	}
	swap := func() {
		slice := filepath.Base(filepath.Dir(box.cgroup))
		box.cgroup, box.newCgroup = box.newCgroup, box.cgroup
		box.request.Scope, box.request.NewName = box.request.NewName, box.request.Scope
		box.request.TargetSlice, box.request.Cgroup = slice, box.cgroup
		eventually(b, "the old scope is gone", func() bool {
			return exec.Command("systemctl", "is-active", "--quiet", box.request.NewName).Run() != nil
		})
	}
	bare := func() {
		numbers := strings.Fields(file(b, box.cgroup, "cgroup.procs"))
		pids := make([]uint32, 0, len(numbers))
		for _, pid := range numbers {
			n, err := strconv.ParseUint(pid, 10, 32)
			if err != nil {
				b.Fatal(err)
			}
			pids = append(pids, uint32(n))
		}
		properties := livemove.Properties(old, box.request.TargetSlice, box.request.Description)
		if err := c.StartScope(b.Context(), box.request.NewName, properties, pids); err != nil {
			b.Fatal(err)
		}
	}
	m := mover(b, c)
	move := func() {
		if _, err := m.Move(b.Context(), box.request); err != nil {
			b.Fatal(err)
		}
	}
	// In turn, because the machine below the node has others to serve.
	var took [2][]time.Duration
	for range b.N {
		for i, f := range []func(){bare, move} {
			start := time.Now()
			f()
			took[i] = append(took[i], time.Since(start))
			swap()
		}
	}
	slices.Sort(took[0])
	slices.Sort(took[1])
	medians := [2]time.Duration{took[0][b.N/2], took[1][b.N/2]}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(medians[0].Microseconds())/1000, "bare-ms")
	b.ReportMetric(float64(medians[1].Microseconds())/1000, "move-ms")
	b.ReportMetric(float64(medians[1])/float64(medians[0]), "move/bare")
	for _, name := range []string{box.request.Scope, box.request.NewName} {
		_ = livemove.StopScope(b.Context(), c, name)
	}
}
