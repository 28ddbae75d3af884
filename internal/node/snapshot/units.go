package snapshot

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"nodepartition/internal/audit"
)

// unitProperties lists the properties that rules are about.
const unitProperties = "Id,ActiveState,MemoryMax,MemoryHigh,MemorySwapMax,CPUWeight,CPUQuotaPerSecUSec,TasksMax,AllowedCPUs," +
	"StartupAllowedCPUs,ManagedOOMSwap,ManagedOOMMemoryPressure,ControlGroup,MainPID"

const (
	oomdService    = "systemd-oomd.service"
	kubeletService = "kubelet.service"
	// atOnce is the number of units in one call of systemctl.
	atOnce = 200
)

// runtimes lists the services of container runtimes.
var runtimes = []string{"containerd.service", "crio.service"}

// readUnits reads the properties of the slices that were read, and the processes of the daemons.
func (g *gatherer) readUnits(ctx context.Context, s *audit.Facts) {
	if err := g.node.Answers(); err != nil {
		g.missing = append(g.missing, fmt.Sprintf("systemd's properties: %v", err))
		return
	}
	units := append([]string{"-.slice", oomdService, kubeletService}, runtimes...)
	for _, cgroup := range slices.Sorted(maps.Keys(s.Cgroups)) {
		if strings.HasSuffix(cgroup, ".slice") {
			units = append(units, path.Base(cgroup))
		}
	}
	for part := range slices.Chunk(units, atOnce) {
		all, err := g.node.Systemd.Show(ctx, unitProperties, part...)
		if err != nil {
			g.missing = append(g.missing, fmt.Sprintf("systemd's properties: %v", err))
			break
		}
		for _, unit := range all {
			s.Units[unit["Id"]] = unit
		}
	}
	s.OomdActive = s.Units[oomdService]["ActiveState"] == "active"
	g.readProcesses(s)
}

// readProcesses reads the OOM scores of kubelet and runtime. k3s and RKE2 are both in one process,
// which is neither.
func (g *gatherer) readProcesses(s *audit.Facts) {
	if g.kubelet != nil {
		g.addProcess(s, audit.KubeletDaemon, kubeletService, g.kubelet.PID)
	}
	for _, unit := range runtimes {
		if pid, err := strconv.Atoi(s.Units[unit]["MainPID"]); err == nil && pid > 0 {
			g.addProcess(s, audit.RuntimeDaemon, unit, pid)
		}
	}
}

func (g *gatherer) addProcess(s *audit.Facts, kind audit.Kind, unit string, pid int) {
	score, ok := g.oomScore(pid)
	cgroup := strings.Trim(s.Units[unit]["ControlGroup"], "/")
	if ok && cgroup != "" {
		s.Processes = append(s.Processes, audit.Process{Kind: kind, Unit: unit, Cgroup: cgroup, PID: pid, OOMScoreAdj: score})
	}
}
