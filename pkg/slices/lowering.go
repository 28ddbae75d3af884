package slices

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// This file holds both ends of a memory limit that is lowered below the partition's usage.
//
// The kernel does not refuse a memory.max below usage: it kills, in its own order, until usage fits
// (memory_max_write, mm/memcontrol.c). So the monitor evicts, and the limit in force stays
// meanwhile:
//
//  1. A monitor that evicts writes EvictsFile. One that does not removes it (AnnounceEviction).
//  2. The operator lowers memoryLimit and reloads systemd. The generator finds that the limit has
//     to wait (deferrals). It writes units with the limit in force, and without memoryHigh.
//     It writes the deferral into its decision (pkg/slices/decision).
//  3. The monitor reads the decision after the reload. It evicts down to the configured limit, and
//     then reloads systemd. If usage is below by then, it reloads at once.
//  4. The generator finds usage below the limit. It writes the limit, and no deferral.
//
// Only the generator compares limit and usage: usage changes between two readings. Without a
// running monitor that evicts, the limit does not wait.

// EvictsFile exists while a monitor evicts, and after a monitor that evicted has ended. It holds
// the cgroup of that monitor, whose service an operator may have put into any slice. A monitor that
// only reports, or that leaves evictions to the kernel, does not lower usage.
const EvictsFile = config.StateDir + "/monitor/evicts"

// monitorCgroup is the cgroup of the service without a Slice= of an operator. A populated cgroup
// shows that the monitor runs: systemd removes the cgroup of a service that has ended. The lock
// that a monitor holds would also show a monitor that was started by hand. But trying that lock
// means holding it for a moment, and a monitor that starts at that moment would exit. And
// /proc/locks grows with the locks of all pods.
const monitorCgroup = partition.CgroupMount + "/" + partition.MonitorCgroup

const (
	// maxBytes bounds a file that holds one fact.
	maxBytes = 64 << 10
	// maxDropins bounds the entries of a folder of drop-ins, far above any real number.
	maxDropins = 1000
)

// AnnounceEviction records on the node at root for the generator whether the monitor evicts. The
// generator defers a lowered limit only to a monitor that does.
func AnnounceEviction(root string, evicts bool) error {
	file, err := host.Root(root).Path(EvictsFile)
	if err != nil {
		return err
	}
	if evicts {
		own, err := os.ReadFile("/proc/self/cgroup")
		if err != nil {
			return err
		}
		return os.WriteFile(file, own, 0o644)
	}
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// deferrals returns the limits of c that have to wait on the node at root, by partition.
func deferrals(root host.Root, c *config.Config) map[partition.Name]*decision.Deferral {
	found := map[partition.Name]*decision.Deferral{}
	for i := range c.Partitions {
		p := &c.Partitions[i]
		memory, err := cgroups.FS(root).ReadMemory(p.Name.Cgroup())
		if err != nil || !defers(p, memory) || !monitorEvicts(root) {
			continue // the cgroup may be removed at any time
		}
		// A limit that an operator has set stays in force whatever we write.
		//guard: an operator's limit is not deferred
		if operatorSets(root, p.Name.Slice(), "MemoryMax") {
			continue
		}
		until := fmt.Sprintf("keeping the present limit of %d bytes until partition-monitor has evicted down to the new one", memory.Max)
		if memory.Max == cgroups.Unlimited {
			until = "leaving it without a limit until partition-monitor has evicted down to this one"
		}
		found[p.Name] = &decision.Deferral{Limit: p.Limit, InForce: memory.Max, Warning: fmt.Sprintf(
			"%s: is not above the %d bytes that the partition uses without page cache: %s; it reloads systemd then",
			c.At(p.Name, "memoryLimit"), memory.Used(), until,
		)}
	}
	return found
}

// defers reports whether the limit of p would make the kernel kill. It does not count on swap, and
// neither does the kubelet.
func defers(p *config.Partition, memory cgroups.MemoryReading) bool {
	return p.Nearest() > 0 && p.Limit > 0 && p.Max() < memory.Max && p.Max() <= memory.Used()
}

func monitorEvicts(root host.Root) bool { return root.Exists(EvictsFile) && monitorRuns(root) }

// monitorRuns reports whether systemd has the monitor's service running. It does not find a monitor
// that does not evict in a slice of an operator.
func monitorRuns(root host.Root) bool {
	own, _ := root.ReadFile(EvictsFile, maxBytes)
	runs, err := cgroups.FS(root).Populated(serviceCgroup(string(own)))
	return err == nil && runs
}

// serviceCgroup returns the cgroup of a service by its /proc/self/cgroup, "0::/path" in cgroup v2.
// Only the cgroup of our service counts: the cgroup of a login, from which somebody starts a
// monitor by hand, has processes after the monitor, too.
func serviceCgroup(own string) string {
	cgroup := cgroups.OfProcess(own)
	if cgroup != path.Clean("/"+cgroup) || path.Base(cgroup) != partition.MonitorService {
		return monitorCgroup
	}
	return partition.CgroupMount + cgroup
}
