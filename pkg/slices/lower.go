package slices

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/kubeletconfig"
)

// monitorEvents is where the kernel says whether MonitorService runs: systemd removes the cgroup of a service that has ended. The lock
// that a monitor holds would say so of one that was started by hand as well. But to try that lock is to hold it for a moment, at
// which a monitor that starts just then would end, and /proc/locks grows with the locks of all pods.
const monitorEvents = "/sys/fs/cgroup/system.slice/" + MonitorService + "/cgroup.events"

// EvictsFile is there while the monitor evicts, or did so when it ended: one that only reports, or leaves evictions to the kernel, brings
// nothing down.
const EvictsFile = StateDir + "/monitor/evicts"

// operatorLimits is where "systemctl set-property" puts a limit for kubepods-system.slice. It wins over what units say.
var operatorLimits = []string{
	"/run/systemd/system.control/" + SystemSlice + ".d/50-MemoryMax.conf",
	"/etc/systemd/system.control/" + SystemSlice + ".d/50-MemoryMax.conf",
}

// noLimit is memory.max of a partition without a limit.
const noLimit = math.MaxInt64

// memory is what the running partition may use and uses, in bytes. The zero value is for one that could not be read.
type memory struct {
	// max is memory.max, noLimit for none.
	max int64
	// used is what the kernel cannot take back: usage without page cache and without half of the slabs that it may free (Memory.Used of
	// pkg/evict).
	used int64
}

// readUsage reads the memory of the running partition. A cgroup that cannot be read, for it may go away meanwhile, is none.
func readUsage(root hostfs.FS) memory {
	limit, errLimit := readNumber(root, systemCgroup+"/memory.max")
	current, errCurrent := readNumber(root, systemCgroup+"/memory.current")
	stat, errStat := root.ReadFile(systemCgroup+"/memory.stat", maxFactBytes)
	if errLimit != nil || errCurrent != nil || errStat != nil {
		return memory{}
	}
	m := memory{max: limit, used: current}
	for line := range strings.Lines(string(stat)) {
		switch name, text, _ := strings.Cut(strings.TrimSpace(line), " "); name {
		case "inactive_file", "active_file", "slab_reclaimable":
			bytes, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return memory{}
			}
			if name == "slab_reclaimable" {
				bytes /= 2
			}
			m.used -= min(bytes, m.used)
		}
	}
	return m
}

// readNumber reads a file with one number; "max" is noLimit.
func readNumber(root hostfs.FS, name string) (int64, error) {
	data, err := root.ReadFile(name, maxFactBytes)
	if err != nil {
		return 0, err
	}
	text := strings.TrimSpace(string(data))
	if text == "max" {
		return noLimit, nil
	}
	return strconv.ParseInt(text, 10, 64)
}

func monitorEvicts(root hostfs.FS) bool {
	data, err := root.ReadFile(monitorEvents, maxFactBytes)
	if err != nil || !strings.Contains(string(data), "populated 1\n") {
		return false
	}
	_, err = root.ReadFile(EvictsFile, maxFactBytes)
	return err == nil
}

// lowerLater reports whether the limit of p has to wait for partition-monitor to evict. The kernel does not refuse a memory.max below
// what is used: it kills, in its own order, until it fits (memory_max_write, mm/memcontrol.c). Swap is no way out that is
// counted on, as for the kubelet. Where an operator has set a limit, that is the one in force, whatever we write.
func (in *Input) lowerLater(p *Partition) bool {
	_, evicts := p.margin()
	return evicts && in.monitor && !in.operator && p.MemoryLimit > 0 && p.MemoryLimit < in.memory.max && p.MemoryLimit <= in.memory.used
}

func (in *Input) lowerLaterWarning() string {
	const field = "memoryLimit"
	if in.memory.max == noLimit {
		return fmt.Sprintf("%s: %s.%s: %s: is not above the %d bytes that the partition uses without page cache: leaving it without a limit "+
			"until partition-monitor has evicted down to this one; it reloads systemd then",
			in.config.SectionFileWith(field), kubeletconfig.SectionField, field, shown(in.section[field]), in.memory.used)
	}
	return fmt.Sprintf("%s: %s.%s: %s: is not above the %d bytes that the partition uses without page cache: keeping the present limit of "+
		"%d bytes until partition-monitor has evicted down to the new one; it reloads systemd then",
		in.config.SectionFileWith(field), kubeletconfig.SectionField, field, shown(in.section[field]), in.memory.used, in.memory.max)
}

// operatorDropins is where "systemctl edit" puts what is to win over a unit, and what configuration management writes.
var operatorDropins = []string{"/run/systemd/system/" + SystemSlice + ".d", "/etc/systemd/system/" + SystemSlice + ".d"}

// operatorLimited reports whether an operator has set a limit by hand.
func operatorLimited(root hostfs.FS) bool {
	for _, path := range operatorLimits {
		if _, err := root.Lstat(path); err == nil {
			return true
		}
	}
	for _, dir := range operatorDropins {
		entries, err := root.ReadDir(dir, maxDropins)
		if err != nil {
			continue // there is none
		}
		for _, entry := range entries {
			text, err := root.ReadFile(dir+"/"+entry.Name(), maxFactBytes)
			if err != nil || !strings.HasSuffix(entry.Name(), ".conf") {
				continue
			}
			for line := range strings.Lines(string(text)) {
				if key, value, _ := strings.Cut(line, "="); strings.TrimSpace(key) == "MemoryMax" && strings.TrimSpace(value) != "" {
					return true
				}
			}
		}
	}
	return false
}

// maxDropins is more than anybody has.
const maxDropins = 1000
