package daemon

import (
	"context"
	"time"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/monitor/candidates"
	"nodepartition/internal/monitor/node"
	"nodepartition/internal/trialend"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
)

// kubeletPatience delays evictions after our start while the kubelet serves its Pods API but has
// not answered yet: until then requests and priorities are estimates.
const kubeletPatience = 2 * time.Second

// newEvictor connects the eviction manager, and the record of faults in the cluster, to the other
// parts.
func (m *monitor) newEvictor() *evict.Manager {
	fs := cgroupfs.FS(cgroupfs.Mount)
	capacity, started := node.MemoryCapacity(), time.Now()
	burst, err := evict.MeasureBurst()
	if err != nil {
		m.log.Warn("eviction", "error", err)
	}
	m.log.Debug("the partition may grow at most at", "bytesPerSecond", int64(burst))
	pods := func() []evict.Pod {
		known, told := m.kubelet.Pods()
		return m.remembered.Candidates(fs, m.table.Pods(), known, told, capacity)
	}
	m.cluster = m.newCluster(pods)
	killer := &evict.Killer{}
	return evict.New(evict.Options{
		Cgroups: fs, Slice: unitname.CgroupPath(unitname.System.Slice()),
		Pods: pods,
		Known: func() bool {
			_, told := m.kubelet.Pods()
			return told || time.Since(started) >= kubeletPatience || !node.IsSocket(m.options.PodsAPI)
		},
		Refresh:  m.reconciler.Urge,
		Scopes:   candidates.Scopes(fs),
		Rest:     func(uid string) []evict.Container { return candidates.Containers(m.table.Pods(), uid) },
		Kill:     func(cgroup string, atLimit bool) error { return killer.Kill(fs.Path(cgroup), atLimit) },
		Runtime:  mover{runtime: m.runtime},
		Mark:     m.table.SetEvicting,
		API:      m.api,
		Store:    evict.Store(node.EvictionsFile),
		Shortage: node.ShortageFile,
		SinceBoot: func() (string, time.Duration, error) {
			now, err := trialend.Now()
			return now.Boot, now.Since, err
		},
		LowerLimit: func(ctx context.Context) error {
			m.log.Info("the partition uses less than the lowered memory limit: reloading systemd to apply it")
			return m.units.Reload(ctx)
		},
		Events: evictionEvents{
			metrics: m.metrics, evictionJournal: evictionJournal{m.log}, recorder: m.history.events(), cluster: m.cluster,
		},
	})
}
