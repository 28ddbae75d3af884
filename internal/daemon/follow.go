package daemon

import (
	"context"
	"os"

	"nodepartition/internal/host"
	"nodepartition/internal/node"
	"nodepartition/pkg/podmove"
	"nodepartition/pkg/slices/lowering"
)

// load is node.LoadReloaded, or node.LoadConfig if an operator has sent SIGHUP.
type load func(host.Node, podmove.Mode, node.Keep) (node.Followed, error)

// reload follows a changed configuration: after a daemon-reload, and at SIGHUP.
func (m *monitor) reload(load load) {
	config, err := load(m.options.Node, m.options.Mode, node.WriteMembers)
	if err != nil {
		m.log.Error("the configuration is not valid; keeping the present one", "error", err)
		m.cluster.invalid("the configuration is not valid; keeping the present one", err)
		return
	}
	if why := config.Desired.ManagedByKubelet; why != "" && len(config.Partitions) == 0 {
		m.yield(why)
		return
	}
	m.follow(config)
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
	switch {
	case c.Problem != nil:
		m.log.Error(
			"the configuration is not valid; following the last good one of this boot",
			"error", c.Problem, "namespaces", c.Policy().Namespaces(),
		)
		m.cluster.invalid("the configuration is not valid; following the last good one of this boot", c.Problem)
	case c.NotApplied:
		m.log.Warn(node.NotApplied, "namespaces", c.Policy().Namespaces())
	default:
		m.log.Debug("configuration", "namespaces", c.Policy().Namespaces(), "off", c.Off())
	}
	settings, evicts := m.settings(c)
	m.partitions.made, m.partitions.yielded = c.Made, false
	m.keepPartitions(c, settings)
	m.problem.set(c.Problem)
	m.setConfigured(c)
	m.changes.note()
	policy := c.Policy()
	//guard: placement asks the API server
	policy.Allows = m.namespaces.Allows
	m.reconciler.SetConfig(policy)
	m.endTaken()
	m.resources.Follow(c.Advertised())
	if err := lowering.Announce(string(m.options.Node.Root), evicts); err != nil {
		m.log.Error(
			"recording for the generator whether pods are evicted failed; it may apply a lowered memoryLimit at once",
			"error", err,
		)
	}
	for _, p := range m.partitions.all() {
		if s, ok := settings[p.name]; ok {
			p.evictor.SetConfig(s)
		}
	}
}

func (m *monitor) noteReloaded() {
	m.refusals.reload.note()
	select {
	case m.reloaded <- struct{}{}:
	default: // one is pending
	}
}

// reloads reads the configuration again after each signal. It never reads two at once, because then
// the older one might win.
func (m *monitor) reloads(ctx context.Context, hangup <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-hangup:
			m.reload(node.LoadConfig)
		case <-m.reloaded:
			read := m.refusals.reload.reading()
			m.reload(node.LoadReloaded)
			read()
		case <-m.refusals.changed:
			m.reload(node.LoadApplied)
		}
		m.runtime.Reconsider(ctx) // outside of follow, because systemd may be asked
	}
}
