package daemon

import (
	"context"
	"errors"
	"os"
	"path"
	"slices"
	"sync"

	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// partitions lists the partitions of the daemon. They come and go with the configuration.
type partitions struct {
	units sliceUnits
	// failed logs that the slice of a partition could not be started, and unstopped that it could not
	// be stopped.
	failed, unstopped func(error)

	// changing is held while a configuration is followed, and while partitions are ended: what a
	// reconcile found empty may be switched on again meanwhile.
	changing sync.Mutex
	// yielded means that the kubelet makes all partitions itself, and that the daemon ends.
	yielded bool

	mu   sync.Mutex
	list []*followedPartition // replaced as a whole
	ctx  context.Context      // ends the parts; nil before they run
}

// sliceUnits starts and stops the slices of partitions. *systemd.Client implements it.
type sliceUnits interface {
	Connected() bool
	StartConfiguredSlice(ctx context.Context, name string) error
	StopConfiguredSlice(ctx context.Context, name string) error
}

// all returns the partitions. The result must not be changed.
func (l *partitions) all() []*followedPartition {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list
}

// of returns the partition of that name, nil if there is none.
func (l *partitions) of(name partition.Name) *followedPartition {
	for _, p := range l.all() {
		if p.name == name {
			return p
		}
	}
	return nil
}

// names returns the names of the partitions.
func (l *partitions) names() []partition.Name {
	all := l.all()
	names := make([]partition.Name, 0, len(all))
	for _, p := range all {
		names = append(names, p.name)
	}
	return names
}

// add adds a partition, and runs its parts if the others run.
func (l *partitions) add(p *followedPartition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(slices.Clip(l.list), p)
	//guard: no part of a partition runs after the end of all
	if l.ctx != nil && l.ctx.Err() == nil {
		p.start(l.ctx)
	}
}

// remove removes a partition, and waits until its parts have ended.
func (l *partitions) remove(p *followedPartition) {
	l.mu.Lock()
	l.list = slices.DeleteFunc(slices.Clone(l.list), func(q *followedPartition) bool { return q == p })
	l.mu.Unlock()
	p.end()
}

// run runs the parts of the partitions until ctx ends, also of partitions that are added meanwhile.
func (l *partitions) run(ctx context.Context) error {
	l.mu.Lock()
	l.ctx = ctx
	for _, p := range l.list {
		p.start(ctx)
	}
	l.mu.Unlock()
	<-ctx.Done()
	for _, p := range l.all() {
		p.end()
	}
	return ctx.Err()
}

// settings returns the settings of eviction by partition, and whether there is one that evicts.
func (m *monitor) settings(c node.Followed) (map[partition.Name]evict.Settings, bool) {
	all, evicts := map[partition.Name]evict.Settings{}, false
	for i := range c.Partitions {
		p := &c.Partitions[i]
		all[p.Name] = c.EvictionOf(p, m.options.Eviction)
		// also one that waits for a decision, so that a limit waits
		evicts = evicts || p.Eviction != nil && !m.options.Eviction.Off && !m.options.Eviction.DryRun
	}
	return all, evicts
}

// endTaken ends the partitions that are followed no more, whose slices are not ours: the kubelet
// makes them itself. One with an eviction that is not reported yet stays until that is over, and
// stops no other pod. If the kubelet makes all of them, the daemon ends. It is called with changing
// held.
func (m *monitor) endTaken() {
	for _, p := range m.partitions.all() {
		switch {
		//guard: a partition that the kubelet makes from now on is ended without its slices
		case m.isOurs(p.name):
		//guard: a partition that the kubelet takes stays until its eviction is over
		case p.evictor.Open() > 0:
			p.evictor.SetConfig(evict.Settings{Off: true})
		default:
			m.endPartition(p)
		}
	}
	if m.partitions.yielded && len(m.partitions.all()) == 0 {
		m.leaveNode(context.Background())
		m.cancel()
	}
}

// isOurs reports whether a partition is followed, on or off.
func (m *monitor) isOurs(name partition.Name) bool {
	//guard: slices that the kubelet has taken are not stopped with the last ones of ours
	return !m.partitions.yielded && slices.ContainsFunc(
		m.reconciler.Config().Partitions, func(p decision.Partition) bool { return p.Name == name },
	)
}

// keepPartitions makes the partitions that a configuration has and the daemon does not. It is
// called with changing held.
func (m *monitor) keepPartitions(c node.Followed, settings map[partition.Name]evict.Settings) {
	for i := range c.Partitions {
		name := c.Partitions[i].Name
		if m.partitions.of(name) != nil {
			continue
		}
		p, err := m.newPartition(name)
		if err != nil {
			m.log.Error("the partition has no eviction; restart partition-monitor", "partition", name, "error", err)
			continue
		}
		p.evictor.SetConfig(settings[name]) // before it reads its state
		m.metrics.Add(name, p.evictor)
		//guard: the monitor follows a partition that comes while it runs
		m.partitions.add(p)
	}
}

// endPartition ends the parts of a partition, and forgets it.
func (m *monitor) endPartition(p *followedPartition) {
	m.partitions.remove(p)
	m.table.SetEvicting(p.name, nil)
	//guard: the metrics forget a partition that is gone
	m.metrics.Remove(p.name)
	_ = os.Remove(string(p.evictor.Store)) // what is left of it counts as old when the partition comes back
}

// startSlices starts the slices of partitions that were added while the daemon runs. The boot
// starts the others. It is called with changing held.
func (m *monitor) startSlices(ctx context.Context) {
	l := &m.partitions
	for _, name := range m.on() {
		//guard: the slice of a partition that comes while the monitor runs is started
		if m.exists(name) || !l.units.Connected() {
			continue
		}
		if err := l.units.StartConfiguredSlice(ctx, name.Slice()); err != nil {
			l.failed(err)
		}
	}
}

// on lists the partitions that are switched on.
func (m *monitor) on() []partition.Name {
	var names []partition.Name
	for _, p := range m.reconciler.Config().Partitions {
		if !p.Off {
			names = append(names, p.Name)
		}
	}
	return names
}

// exists reports whether a partition has a cgroup.
func (m *monitor) exists(name partition.Name) bool {
	return node.HasCgroup(m.options.Node, name)
}

// hasPods reports whether a partition has the slice of a pod, or cannot be read.
func (m *monitor) hasPods(name partition.Name) bool {
	for _, slice := range name.Slices() {
		children, err := m.options.Node.Cgroups.Children(partition.CgroupPath(slice))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil || slices.ContainsFunc(children, func(child string) bool {
			_, _, _, ok := partition.ParsePodSlice(path.Base(child))
			return ok
		}) {
			return true
		}
	}
	return false
}

// removeEmpty ends the partitions that are switched off and empty while others stay. One with an
// eviction that is not reported yet stays until that is over. It is called with changing held.
func (m *monitor) removeEmpty(ctx context.Context, empty []partition.Name) {
	on := m.on()
	//guard: nothing is removed while it is not known what to follow
	if m.followed.now().Unknown {
		return
	}
	if len(on) == 0 {
		//guard: the last slices are stopped by the end of the daemon
		return // all have come to their end: see serve
	}
	for _, name := range empty {
		p := m.partitions.of(name)
		//guard: a partition that came back is not ended by an older pass
		if p == nil || slices.Contains(on, name) || p.evictor.Open() > 0 {
			continue
		}
		if m.exists(name) {
			//guard: the slices of one partition are stopped while others stay
			if m.stopSlices(ctx, name, m.partitions.unstopped); m.exists(name) {
				continue // the next reconcile tries again
			}
		}
		m.endPartition(p)
	}
}

// stopFailed is the message for a slice that systemd did not stop.
const stopFailed = "stopping a slice of the partition failed; stop it with systemctl stop"

// stopSlices stops the slices of a partition that is switched off and empty. A failure is logged
// but not returned: exiting with an error would make systemd restart this program, again and again.
func (m *monitor) stopSlices(ctx context.Context, name partition.Name, failed func(error)) {
	for _, slice := range slices.Backward(name.Slices()) {
		if err := m.partitions.units.StopConfiguredSlice(ctx, slice); err != nil && !errors.Is(err, os.ErrNotExist) {
			failed(err)
		}
	}
	if !m.exists(name) {
		m.log.Info("a partition is switched off and empty: its slices are stopped", "partition", name)
	}
}

// polls returns the evictors of the partitions.
func (l *partitions) polls() map[partition.Name]polls {
	all := map[partition.Name]polls{}
	for _, p := range l.all() {
		all[p.name] = p.evictor
	}
	return all
}
