// Package lowering has both ends of a memory limit that is lowered below what the partition uses.
//
// The kernel does not refuse a memory.max below usage: it kills, in its own order, until it fits
// (memory_max_write, mm/memcontrol.c). The monitor evicts instead, and the limit in force stays meanwhile:
//
//  1. The monitor writes EvictsFile while it evicts, and removes it while it does not (Announce).
//  2. The operator lowers memoryLimit and reloads systemd. The generator finds that the limit has to wait (Find). It writes
//     units with the limit in force, and without memoryHigh.
//  3. The monitor reads the configuration after the reload and finds the same. It evicts down to the configured limit, and
//     then reloads systemd.
//  4. The generator finds less in use than the limit, and writes it.
//
// Both programs read the same files and judge by the same rule. Where no monitor runs that evicts, the limit does not wait.
package lowering

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/hostfs"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/slices/config"
)

// EvictsFile is there while the monitor evicts, or did so when it ended: one that only reports, or leaves evictions to the kernel, brings
// nothing down.
const EvictsFile = config.StateDir + "/monitor/evicts"

// monitorEvents is where the kernel says whether the monitor runs: systemd removes the cgroup of a service that has ended. The lock
// that a monitor holds would say so of one that was started by hand as well. But to try that lock is to hold it for a moment, at
// which a monitor that starts just then would end, and /proc/locks grows with the locks of all pods.
const monitorEvents = "/sys/fs/cgroup/system.slice/" + unitname.MonitorService + "/cgroup.events"

const (
	// maxBytes bounds a file that has one fact.
	maxBytes = 64 << 10
	// maxDropins is more than anybody has.
	maxDropins = 1000
)

// Announce writes whether the monitor evicts: only then the generator leaves a lowered limit to it.
func Announce(evicts bool) error {
	if evicts {
		return os.WriteFile(EvictsFile, nil, 0o644)
	}
	if err := os.Remove(EvictsFile); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Deferral is a configured limit that has to wait for evictions.
type Deferral struct {
	// Limit is the one that stays in force, in bytes; cgroupfs.Unlimited for none.
	Limit uint64
	// Warning is for the operator.
	Warning string
}

// Find returns the deferral of the limit that c asks for on the node at root; nil where the limit does not have to wait.
func Find(root string, c *config.Config) *Deferral {
	if c.Partition == nil {
		return nil
	}
	s := readState(hostfs.FS(root), c.Name)
	if !s.defers(c.Partition) {
		return nil
	}
	used := s.memory.Used()
	d := &Deferral{Limit: s.memory.Max}
	if d.Limit == cgroupfs.Unlimited {
		d.Warning = fmt.Sprintf("%s: is not above the %d bytes that the partition uses without page cache: leaving it without a limit "+
			"until partition-monitor has evicted down to this one; it reloads systemd then", c.At("memoryLimit"), used)
	} else {
		d.Warning = fmt.Sprintf("%s: is not above the %d bytes that the partition uses without page cache: keeping the present limit of "+
			"%d bytes until partition-monitor has evicted down to the new one; it reloads systemd then", c.At("memoryLimit"), used, d.Limit)
	}
	return d
}

// state is what both programs judge by.
type state struct {
	// memory is that of the running partition; the zero value where it does not run.
	memory cgroupfs.MemoryReading
	// monitor says that a monitor runs which evicts.
	monitor bool
	// operator says that an operator has set the limit by hand, which wins.
	operator bool
}

// defers reports whether the limit of p has to wait for the monitor to evict. Swap is no way out that is
// counted on, as for the kubelet. Where an operator has set a limit, that is the one in force, whatever we write.
func (s state) defers(p *config.Partition) bool {
	_, evicts := p.Margin()
	limit := uint64(p.MemoryLimit)
	return evicts && s.monitor && !s.operator && limit > 0 && limit < s.memory.Max && limit <= s.memory.Used()
}

func readState(root hostfs.FS, names unitname.Partition) state {
	memory, runs := readMemory(root, names.Cgroup())
	if !runs {
		return state{}
	}
	return state{memory: memory, monitor: monitorEvicts(root), operator: operatorLimited(root, names.Slice())}
}

// readMemory reads the memory of a cgroup. It reports false for one that cannot be read, for it may go away meanwhile.
func readMemory(root hostfs.FS, cgroup string) (cgroupfs.MemoryReading, bool) {
	var m cgroupfs.MemoryReading
	var err error
	if m.Max, err = readNumber(root, cgroup+"/memory.max"); err != nil {
		return cgroupfs.MemoryReading{}, false
	}
	if m.Current, err = readNumber(root, cgroup+"/memory.current"); err != nil {
		return cgroupfs.MemoryReading{}, false
	}
	stat, err := root.ReadFile(cgroup+"/memory.stat", maxBytes)
	if err != nil {
		return cgroupfs.MemoryReading{}, false
	}
	counts := map[string]*uint64{"inactive_file": &m.InactiveFile, "active_file": &m.ActiveFile, "slab_reclaimable": &m.SlabReclaimable}
	for line := range strings.Lines(string(stat)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if count := counts[name]; count != nil {
			if *count, err = parseBytes(text); err != nil {
				return cgroupfs.MemoryReading{}, false
			}
		}
	}
	return m, true
}

// readNumber reads a file with one number; "max" is cgroupfs.Unlimited.
func readNumber(root hostfs.FS, name string) (uint64, error) {
	data, err := root.ReadFile(name, maxBytes)
	if err != nil {
		return 0, err
	}
	text := strings.TrimSpace(string(data))
	if text == "max" {
		return cgroupfs.Unlimited, nil
	}
	return parseBytes(text)
}

// parseBytes takes what fits into an int64, as a configured limit does.
func parseBytes(text string) (uint64, error) { return strconv.ParseUint(text, 10, 63) }

func monitorEvicts(root hostfs.FS) bool {
	data, err := root.ReadFile(monitorEvents, maxBytes)
	if err != nil || !strings.Contains(string(data), "populated 1\n") {
		return false
	}
	_, err = root.ReadFile(EvictsFile, maxBytes)
	return err == nil
}

// operatorLimited reports whether an operator has set a limit for the slice by hand.
func operatorLimited(root hostfs.FS, slice string) bool {
	// "systemctl set-property" puts a limit there. It wins over what units say.
	for _, dir := range []string{"/run/systemd/system.control/", "/etc/systemd/system.control/"} {
		if _, err := root.Lstat(dir + slice + ".d/50-MemoryMax.conf"); err == nil {
			return true
		}
	}
	// "systemctl edit" puts there what is to win over a unit, and so does configuration management.
	for _, dir := range []string{"/run/systemd/system/" + slice + ".d", "/etc/systemd/system/" + slice + ".d"} {
		entries, err := root.ReadDir(dir, maxDropins)
		if err != nil {
			continue // there is none
		}
		for _, entry := range entries {
			text, err := root.ReadFile(dir+"/"+entry.Name(), maxBytes)
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
