package check

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"node-partition.io/node-partition/internal/partition"
)

// The files of a cgroup that checks name.
const (
	cpuWeight     = "cpu.weight"
	cpuMax        = "cpu.max"
	memoryMax     = "memory.max"
	memoryHigh    = "memory.high"
	swapMax       = "memory.swap.max"
	pidsMax       = "pids.max"
	cpusetCPUs    = "cpuset.cpus"
	effectiveCPUs = "cpuset.cpus.effective"
)

// properties holds the properties of a unit by the name of the file that systemd writes
// (systemd.resource-control(5)).
var properties = map[string]string{
	cpuWeight: "CPUWeight", memoryMax: "MemoryMax", memoryHigh: "MemoryHigh",
	swapMax: "MemorySwapMax", pidsMax: "TasksMax",
}

// kubepods is the slice of all pods.
var kubepods = partition.Default.Slice()

// within reports whether a cgroup is another, or below it.
func within(cgroup, other string) bool {
	return cgroup == other || strings.HasPrefix(cgroup, other+"/")
}

// collectiveLimits checks that partitions have no limits beyond their memory limit, neither their
// own nor one of the slice above them. A limit of a group throttles, or kills, a pod for what its
// neighbours use.
func (t *tree) collectiveLimits() {
	groups := map[string][]string{kubepods: {cpuMax, memoryHigh}}
	for _, p := range t.names {
		for _, slice := range p.Slices() {
			groups[partition.CgroupPath(slice)] = []string{cpuMax, memoryMax, pidsMax}
		}
		groups[partition.CgroupPath(p.Slice())] = []string{cpuMax, pidsMax}
	}
	for cgroup, files := range groups {
		for _, name := range files {
			text, ok := t.cgroups[cgroup][name]
			if first, _, _ := strings.Cut(text, " "); !ok || first == "max" { // cpu.max has the period behind it
				continue
			}
			none := "CPUQuota="
			if name != cpuMax {
				none = properties[name] + "=infinity"
			}
			t.add(fileOf(cgroup, name), text, "max", "systemctl set-property --runtime "+path.Base(cgroup)+" "+none,
				"no group of pods has a limit, so that no pod is throttled or killed for what its neighbours use. "+
					"Each pod has its own limits, and weights divide what is left")
		}
	}
}

// secondWriters compares numbers in files of slices with the properties that systemd keeps for
// them. systemd is the only writer of the cgroups of its units. Scopes are left out: those of
// containers are delegated to the runtime.
func (t *tree) secondWriters() {
	for cgroup, files := range t.cgroups {
		unit := t.units[path.Base(cgroup)]
		if !strings.HasSuffix(cgroup, ".slice") || unit["ActiveState"] != "active" {
			continue
		}
		for name, property := range properties {
			kept, want := unit[property], "max"
			n, err := strconv.ParseUint(kept, 10, 64)
			switch {
			case err == nil && (name == cpuWeight || name == pidsMax):
				want = kept
			case err == nil:
				want = fmt.Sprint(wholePages(n))
			// Where the monitor has taken a weight back, systemd (257) writes the default up to 40 s later.
			case name == cpuWeight && kept == "[not set]" && !strings.HasPrefix(path.Base(cgroup), "kubepods-"):
				want = defaultWeight
			case name == cpuWeight || kept != "infinity":
				continue // a value of a new kind
			}
			if text, ok := files[name]; ok && text != want {
				where := fileOf(cgroup, name)
				t.add(where, text, want, "echo "+want+" > "+where, "systemd keeps %s=%s for %s, so another program has written "+
					"the file. systemd overwrites it, at the latest when a property changes", property, kept, path.Base(cgroup))
			}
		}
	}
}

// defaultWeight is the kernel's cpu.weight of a cgroup without one.
const defaultWeight = "100"
