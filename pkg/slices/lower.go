package slices

import (
	"fmt"
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

// memory is what the running partition may use and uses, in bytes. The zero value is for one that could not be read.
type memory struct {
	// max is memory.max.
	max int64
	// used is what the kernel cannot take back: usage without page cache and without the slabs that it can free.
	used int64
}

// readUsage reads the memory of the running partition. A cgroup that cannot be read, for it may go away meanwhile, is none, and so is one
// without a limit: there a limit cannot come too soon.
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
			m.used -= min(bytes, m.used)
		}
	}
	return m
}

// readNumber reads a file with one number; "max" is none.
func readNumber(root hostfs.FS, name string) (int64, error) {
	data, err := root.ReadFile(name, maxFactBytes)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
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
// counted on, as for the kubelet.
func (in *Input) lowerLater(p *Partition) bool {
	_, evicts := p.margin()
	return evicts && in.monitor && p.MemoryLimit < in.memory.max && p.MemoryLimit <= in.memory.used
}

func (in *Input) lowerLaterWarning() string {
	const field = "memoryLimit"
	return fmt.Sprintf("%s: %s.%s: %s: is not above the %d bytes that the partition uses without page cache: keeping the present limit of "+
		"%d bytes until partition-monitor has evicted down to the new one; it reloads systemd then",
		in.config.SectionFileWith(field), kubeletconfig.SectionField, field, shown(in.section[field]), in.memory.used, in.memory.max)
}
