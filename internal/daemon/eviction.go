package daemon

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/slices/config"
)

// kubeletPatience delays evictions after our start while the kubelet serves its Pods API but has
// not answered yet: until then requests and priorities are estimates.
const kubeletPatience = 2 * time.Second

// measureBurst returns and logs the growth that may set in without warning on this machine, in
// bytes per second.
func (m *monitor) measureBurst() float64 {
	online, err := config.OnlineCPUs(m.options.Node.Root)
	cpus := cmp.Or(online.Size(), runtime.NumCPU())
	burst, measureErr := evict.MeasureBurst(cpus)
	if err := errors.Join(err, measureErr); err != nil {
		m.log.Warn("eviction", "error", err)
	}
	m.log.Debug("the partition may grow at most at", "bytesPerSecond", int64(burst), "cpus", cpus)
	return burst
}

// newPartition returns a partition whose eviction is connected to the parts of the node.
func (m *monitor) newPartition(name partition.Name) (*followedPartition, error) {
	p, fs := &followedPartition{name: name, remembered: &node.PodMemory{Partition: name}}, m.options.Node.Cgroups
	capacity, started := node.MemoryCapacity(m.options.Node.Root), time.Now()
	pods := func() []evict.Pod {
		known, told := m.kubelet.Pods()
		return p.remembered.Candidates(m.options.Node, m.table.Pods(), known, told, capacity)
	}
	journal := newEvictionJournal(m.log, name)
	var err error
	p.evictor, err = evict.New(evict.Options{
		Partition: name,
		Cgroups:   fs,
		Inventory: evict.Inventory{
			Pods: pods,
			Known: func() bool {
				_, told := m.kubelet.Pods()
				return told || time.Since(started) >= kubeletPatience || !node.IsSocket(m.options.PodsAPI)
			},
			Refresh: m.signals.Urge,
			Scopes:  node.ContainerScopes(fs),
			Rest:    func(uid string) []evict.Container { return node.CandidateContainers(m.table.Pods(), uid) },
			Spare:   m.spare(name),
		},
		Actions: evict.Actions{
			Kill:    func(cgroup string, atLimit bool) error { return m.killer.Kill(fs.Path(cgroup), atLimit) },
			Runtime: m.runtime,
			Mark:    func(uids map[string]bool) { m.table.SetEvicting(name, uids) },
			API:     m.api,
			LowerLimit: func(ctx context.Context) error {
				journal.log.Info("the partition uses less than the lowered memory limit: reloading systemd to apply it")
				return m.units.Reload(ctx)
			},
			Reclaim: m.reclaim(partition.CgroupPath(name.Slice())),
		},
		Store: node.EvictionFile(m.options.Node, name),
		Burst: m.burst,
		Events: evictionEvents{
			evictionJournal: journal, metrics: m.metrics.Evictions(name), cluster: clusterEvents{m.recorder, name},
		},
	})
	return p, err
}

// spare returns what reads the memory that the node can lend to a partition. That is not known
// while a kubelet runs that does not tell its pods: a pod that it has just started would count for
// nothing. While no kubelet runs, the list that the last one has sent counts.
func (m *monitor) spare(to partition.Name) func() (evict.Spare, error) {
	return func() (evict.Spare, error) {
		threshold := m.pressure.Load()
		pods, told := m.kubelet.Pods()
		switch {
		case threshold == nil:
			return evict.Spare{}, errors.New("the memory below which the kubelet evicts is not known; partition-monitor plan says what is wrong with its configuration")
		//guard: a kubelet that does not run takes nothing back
		//guard: a kubelet that does not tell its pods lends nothing
		case !told || !m.kubelet.Answers() && m.kubeletRuns():
			return evict.Spare{}, errors.New("the kubelet does not tell its pods; partition-monitor check pods-api says why")
		}
		return node.Spare(m.options.Node, to, m.followed.now(), pods, *threshold)
	}
}

func (m *monitor) kubeletRuns() bool {
	_, err := kubelet.Running(m.options.Node.Root)
	return err == nil
}

// reclaimPause is the time between two calls of the kernel.
const reclaimPause = time.Second

// reclaim returns what has the kernel take back page cache of a partition. The kernel takes its
// time, and an eviction does not wait for it.
func (m *monitor) reclaim(cgroup string) func(bytes uint64) {
	failed := m.complaints("the kernel could not take back page cache")
	var busy atomic.Bool
	return func(bytes uint64) {
		if !busy.CompareAndSwap(false, true) {
			return
		}
		go func() {
			err := m.options.Node.Cgroups.Reclaim(cgroup, bytes)
			if err != nil && !errors.Is(err, syscall.EAGAIN) { // there was less
				failed(err)
			}
			time.AfterFunc(reclaimPause, func() { busy.Store(false) })
		}()
	}
}
