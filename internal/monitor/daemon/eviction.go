package daemon

import (
	"context"
	"time"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/monitor/candidates"
	"nodepartition/internal/monitor/node"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
)

// kubeletPatience is how long after our start we evict nobody for want of the kubelet's word, where it serves its Pods API.
const kubeletPatience = 2 * time.Second

// newEvictor wires eviction to the rest.
func (m *monitor) newEvictor() *evict.Manager {
	fs := cgroupfs.FS(cgroupfs.Mount)
	capacity, started := node.MemoryCapacity(), time.Now()
	burst, err := evict.MeasureBurst()
	if err != nil {
		m.log.Warn("eviction", "error", err)
	}
	m.log.Debug("the partition may grow as fast as", "bytesPerSecond", int64(burst))
	return evict.New(evict.Options{
		Cgroups: fs, Slice: unitname.CgroupPath(unitname.System.Slice()),
		Pods: func() []evict.Pod {
			known, told := m.kubelet.Pods()
			if !told && time.Since(started) < kubeletPatience && node.IsSocket(m.options.PodsAPI) {
				return nil // its word on requests and priorities is about to come
			}
			found := m.table.Pods()
			listed := candidates.Inventory(found, known, capacity)
			return append(listed, candidates.Unlisted(fs, listed, known, capacity)...)
		},
		Refresh: m.reconciler.Urge,
		Scopes:  candidates.Scopes(fs),
		Rest:    func(uid string) []string { return candidates.Cgroups(m.table.Pods(), uid) },
		Kill:    func(cgroup string) error { return evict.KillCgroup(fs.Path(cgroup)) },
		Runtime: mover{runtime: m.runtime},
		Mark:    m.table.SetEvicting,
		API:     m.api,
		Store:   evict.Store(node.EvictionsFile),
		LowerLimit: func(ctx context.Context) error {
			m.log.Info("the partition uses less than the lowered memory limit: reloading systemd to apply it")
			return m.units.Reload(ctx)
		},
		Events: evictionEvents{metrics: m.metrics, evictionJournal: evictionJournal{m.log}},
	})
}
