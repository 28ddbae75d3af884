package collect

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/hostfs"
)

// unitNames lists the units whose properties are shown, as patterns of systemctl.
var unitNames = []string{
	"kubepods*.slice", "partition-monitor.service", "partition-generator*", "node-partition-trial*", "kubelet.service",
	"k3s.service", "k3s-agent.service", "rke2-server.service", "rke2-agent.service", "containerd.service", "crio.service",
	"docker.service", "slices.target",
}

// unitProperties lists the properties that are asked for and kept. Command lines and environments
// are not among them.
var unitProperties = []string{
	"Id", "LoadState", "ActiveState", "SubState", "UnitFileState", "Result", "FragmentPath", "SourcePath", "DropInPaths",
	"ControlGroup", "Slice", "NRestarts", "ExecMainStatus", "ExecMainCode", "ActiveEnterTimestampMonotonic",
	"ActiveExitTimestampMonotonic", "StateChangeTimestampMonotonic", "ConditionResult", "NeedDaemonReload", "MemoryMax",
	"MemoryHigh", "MemoryMin", "MemoryLow", "MemorySwapMax", "AllowedCPUs", "EffectiveCPUs", "CPUWeight",
	"CPUQuotaPerSecUSec", "TasksMax", "Delegate", "OOMScoreAdjust", "OOMPolicy", "ManagedOOMSwap",
	"ManagedOOMMemoryPressure", "Transient",
}

// properties returns units with the properties that are kept.
func properties(units []map[string]string) []map[string]string {
	out := []map[string]string{}
	for _, unit := range units {
		kept := map[string]string{}
		for _, name := range unitProperties {
			if v, ok := unit[name]; ok && v != "" {
				kept[name] = text(v)
			}
		}
		if len(kept) > 0 {
			out = append(out, kept)
		}
	}
	return out
}

// cgroupFiles lists the files of a cgroup that are read. Processes are not among them.
var cgroupFiles = []string{
	"cgroup.controllers", "cgroup.subtree_control", "cgroup.events", "cgroup.freeze", "memory.current", "memory.peak",
	"memory.max", "memory.high", "memory.low", "memory.min", "memory.swap.current", "memory.swap.max", "memory.oom.group",
	"memory.events", "memory.events.local", "memory.stat", "memory.pressure", "cpu.weight", "cpu.max", "cpu.stat",
	"cpu.pressure", "cpuset.cpus", "cpuset.cpus.effective", "pids.current", "pids.max", "io.pressure",
}

// The bounds of the tree.
const (
	maxCgroups   = 3000
	maxCgroupLen = 8 << 10
	maxCgroupDep = 8
)

// cgroups returns the values of the cgroups below some of the root.
func cgroups(root cgroupfs.FS, tops ...string) string {
	var out strings.Builder
	left := maxCgroups
	var walk func(cgroup string, depth int)
	walk = func(cgroup string, depth int) {
		if left--; left < 0 || depth > maxCgroupDep {
			return
		}
		shown, ok := known("/" + cgroup)
		if !ok {
			shown = leftOut
		}
		fmt.Fprintf(&out, "%s\n", shown)
		for _, name := range cgroupFiles {
			var buffer [maxCgroupLen]byte
			n, err := cgroupfs.ReadAt(unix.AT_FDCWD, filepath.Join(root.Path(cgroup), name), buffer[:])
			if err != nil {
				continue // its controller is off, or the kernel has no such file
			}
			var values []string
			for line := range strings.Lines(string(buffer[:n])) {
				values = append(values, text(line))
			}
			fmt.Fprintf(&out, "  %s: %s\n", name, strings.Join(values, "; "))
		}
		children, err := root.Children(cgroup)
		if err != nil {
			fmt.Fprintf(&out, "  %s\n", text(err.Error()))
		}
		for _, child := range children {
			walk(path.Join(cgroup, child), depth+1)
		}
	}
	for _, top := range tops {
		if root.Has(top) {
			walk(top, 0)
		}
	}
	if left < 0 {
		fmt.Fprintf(&out, "%d cgroups are %s\n", -left, leftOut)
	}
	return out.String()
}

// release returns the name and the version of the distribution.
func release(root hostfs.FS) string {
	data, err := root.ReadFile("/etc/os-release", maxConfig)
	if err != nil {
		if data, err = root.ReadFile("/usr/lib/os-release", maxConfig); err != nil {
			return text(err.Error())
		}
	}
	var all []string
	for line := range strings.Lines(string(data)) {
		key, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		if slices.Contains([]string{"ID", "VERSION_ID", "VARIANT_ID"}, key) {
			all = append(all, text(strings.Trim(v, `"`)))
		}
	}
	return strings.Join(all, " ")
}

// kernel returns the release of the kernel.
func kernel() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return text(err.Error())
	}
	return unix.ByteSliceToString(name.Release[:]) + " " + unix.ByteSliceToString(name.Machine[:])
}

// unitLine is a line of a unit file.
var unitLine = pattern(`^([A-Za-z]+)=(.*)$`)

// unitKeys lists the settings of our units that are kept.
var unitKeys = set(`
	Description SourcePath Documentation Slice MemoryMax MemoryHigh AllowedCPUs CPUWeight CPUAccounting MemoryAccounting
	Delegate After Before Wants Requires OOMScoreAdjust DefaultDependencies ConditionPathExists
	PathChanged PathExists Unit`)

// ourUnits returns the units that the generator has written, by their path below dir.
func ourUnits(root hostfs.FS, dir string) string {
	var out strings.Builder
	var walk func(dir string, depth int)
	walk = func(dir string, depth int) {
		entries, err := root.ReadDir(dir, 1000)
		if err != nil || depth > 3 {
			return
		}
		for _, entry := range entries {
			file := path.Join(dir, entry.Name())
			shown, ok := known(file)
			switch {
			case !ok:
			case entry.IsDir():
				walk(file, depth+1)
			case entry.Type().IsRegular():
				fmt.Fprintf(&out, "%s\n", shown)
				writeUnit(&out, root, file)
			default:
				fmt.Fprintf(&out, "%s, a link\n", shown)
			}
		}
	}
	walk(dir, 0)
	return out.String()
}

func writeUnit(out *strings.Builder, root hostfs.FS, file string) {
	data, err := root.ReadFile(file, maxConfig)
	if err != nil {
		return
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		match := unitLine().FindStringSubmatch(line)
		switch {
		case match != nil && unitKeys[match[1]]:
			fmt.Fprintf(out, "  %s=%s\n", match[1], text(match[2]))
		case match != nil:
			fmt.Fprintf(out, "  %s=%s\n", match[1], leftOut)
		case strings.HasPrefix(line, "["):
			fmt.Fprintf(out, "  %s\n", text(line))
		}
	}
}
