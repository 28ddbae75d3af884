package daemon

import (
	"context"
	"os"

	"node-partition.io/node-partition/internal/cluster"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/slices"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// reload follows what the generator has decided: after a reload of systemd, at SIGHUP, and when an
// edit was refused without a reload. While it cannot read that, it stays as it is, and moves,
// evicts and removes nothing.
func (m *monitor) reload() {
	m.reloading.Lock()
	defer m.reloading.Unlock()
	c, err := node.Load(m.options.Node, m.options.Mode)
	if err != nil {
		//guard: a decision that is still unknown is followed once
		if m.followed.problemText() == err.Error() {
			return
		}
		//guard: a decision that cannot be read switches nothing off
		c = m.followed.now()
		c.Problem, c.Unknown = err, true
		//guard: nothing is moved while it is not known what to follow
		c.Mode = podmove.Never
	}
	if why := c.ManagedByKubelet; why != "" && len(c.Partitions) == 0 {
		m.yield(why)
		return
	}
	m.follow(c)
}

// yield stops this program, because the kubelet makes the partition itself. An eviction that is not
// reported yet delays that (endTaken), and nothing is moved meanwhile.
func (m *monitor) yield(why string) {
	m.service.status(why)
	m.log.Info(why)
	m.partitions.changing.Lock()
	defer m.partitions.changing.Unlock()
	m.partitions.yielded = true
	policy := m.reconciler.Config()
	//guard: nothing is moved while the kubelet takes the last partitions
	policy.Mode = podmove.Never // the kubelet places pods from now on
	m.reconciler.SetConfig(policy)
	m.endTaken()
}

func (m *monitor) follow(c node.Followed) {
	m.partitions.changing.Lock()
	defer m.partitions.changing.Unlock()
	policy := c.Policy()
	if c.Problem != nil && m.followed.problemText() != c.Problem.Error() {
		what := meaning(c)
		m.log.Error(what, "error", c.Problem, "namespaces", policy.Namespaces())
		if m.recorder != nil {
			m.recorder.Record(cluster.Occurrence{Reason: reasonInvalid, Message: what + ": " + c.Problem.Error()})
		}
	}
	m.log.Debug("configuration", "namespaces", policy.Namespaces(), "off", policy.Off())
	settings, evicts := m.settings(c)
	m.partitions.yielded = false
	m.followed.set(c)
	m.keepPartitions(c, settings)
	for _, p := range m.partitions.all() {
		if s, ok := settings[p.name]; ok {
			p.evictor.SetConfig(s)
		}
	}
	m.metrics.SetConfiguration(c.Decision, problemsOf(c)...)
	m.setBudget()
	m.changes.note()
	m.reconciler.SetConfig(policy)
	m.endTaken()
	m.marks.Follow(c.Advertised())
	if err := slices.AnnounceEviction(string(m.options.Node.Root), evicts); err != nil {
		m.log.Error(
			"recording for the generator whether pods are evicted failed; it may apply a lowered memoryLimit at once",
			"error", err,
		)
	}
}

func (m *monitor) noteReloaded() {
	select {
	case m.reloaded <- struct{}{}:
	default: // one is pending
	}
}

// lookAtRefused notices that partition-generator has refused an edit, or has found it taken back,
// for which systemd is not reloaded. A decision that could not be read is read again.
func (m *monitor) lookAtRefused() {
	if decision.ReadWatch(string(m.options.Node.Root)).Refused != m.followed.problemText() {
		m.noteReloaded()
	}
}

// reloads reads the decision again after each signal.
func (m *monitor) reloads(ctx context.Context, hangup <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-hangup:
		case <-m.reloaded:
		}
		m.reload()
		m.runtime.Reconsider(ctx) // outside of follow, because systemd may be asked
	}
}
