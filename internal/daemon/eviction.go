package daemon

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"time"

	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/node/candidates"
	"node-partition.io/node-partition/pkg/evict"
)

// kubeletPatience delays evictions after our start while the kubelet serves its Pods API but has
// not answered yet: until then requests and priorities are estimates.
const kubeletPatience = 2 * time.Second

// measureBurst returns and logs the growth that may set in without warning on this machine, in
// bytes per second.
func (m *monitor) measureBurst() float64 {
	online, err := node.OnlineCPUs(m.options.Node.Root)
	cpus := cmp.Or(online.Size(), runtime.NumCPU())
	burst, measureErr := evict.MeasureBurst(cpus)
	if err := errors.Join(err, measureErr); err != nil {
		m.log.Warn("eviction", "error", err)
	}
	m.log.Debug("the partition may grow at most at", "bytesPerSecond", int64(burst), "cpus", cpus)
	return burst
}

// lookOutAgain is the pause after a failure of the lookout.
const lookOutAgain = time.Minute

// lookOut watches the calm partitions until ctx ends.
func (m *monitor) lookOut(ctx context.Context) error {
	for ctx.Err() == nil {
		err := m.partitions.basis.lookout.Run(ctx)
		if ctx.Err() != nil {
			break
		}
		m.log.Warn("the memory of each partition is polled by itself for a while", "error", err, "again", lookOutAgain)
		select {
		case <-ctx.Done():
		case <-time.After(lookOutAgain):
		}
	}
	return ctx.Err()
}

// newEvictor connects the eviction manager of a partition to the parts of the node. It also returns
// what records the kernel's kills, nil if nothing does.
func (s *shared) newEvictor(
	remembered *candidates.Memory, basis evictionBasis,
) (*evict.Manager, *clusterEvents, error) {
	partition, fs := remembered.Partition, s.options.Node.Cgroups
	capacity, started := node.MemoryCapacity(s.options.Node.Root), time.Now()
	pods := func() []evict.Pod {
		known, told := s.kubelet.Pods()
		return remembered.Candidates(s.options.Node, s.table.Pods(), known, told, capacity)
	}
	journal := newEvictionJournal(s.log, partition)
	pressed, kills := basis.recorded(partition, pods)
	manager, err := evict.New(evict.Options{
		Partition: partition,
		Cgroups:   fs,
		Inventory: evict.Inventory{
			Pods: pods,
			Known: func() bool {
				_, told := s.kubelet.Pods()
				return told || time.Since(started) >= kubeletPatience || !node.IsSocket(s.options.PodsAPI)
			},
			Refresh: s.signals.Urge,
			Scopes:  candidates.Scopes(fs),
			Rest:    func(uid string) []evict.Container { return candidates.Containers(s.table.Pods(), uid) },
		},
		Actions: evict.Actions{
			Kill:    func(cgroup string, atLimit bool) error { return basis.killer.Kill(fs.Path(cgroup), atLimit) },
			Runtime: mover{runtime: s.runtime},
			Mark:    func(uids map[string]bool) { s.table.SetEvicting(partition, uids) },
			API:     s.api,
			LowerLimit: func(ctx context.Context) error {
				journal.log.Info("the partition uses less than the lowered memory limit: reloading systemd to apply it")
				return s.units.Reload(ctx)
			},
		},
		Store:   node.EvictionFile(s.options.Node, partition),
		Burst:   basis.burst,
		Lookout: basis.lookout,
		Events: evictionEvents{
			evictionJournal: journal, metrics: s.metrics.Evictions(partition), pressed: pressed, cluster: kills,
		},
	})
	return manager, kills, err
}
