package daemon

import (
	"context"
	"os"

	"nodepartition/internal/monitor/node"
	"nodepartition/pkg/podmove"
	"nodepartition/pkg/slices/lowering"
)

// load is node.LoadReloaded, or node.LoadConfig if an operator has sent SIGHUP.
type load func(podmove.Mode, node.Keep) (node.Configuration, error)

// reload follows a changed configuration: after a daemon-reload, and at SIGHUP.
func (m *monitor) reload(load load) {
	config, err := load(m.options.Mode, node.WriteMembers)
	if err != nil {
		m.log.Error("the configuration is not valid; keeping the present one", "error", err)
		m.cluster.invalid("the configuration is not valid; keeping the present one", err)
		return
	}
	if config.Desired.ManagedByKubelet != "" {
		m.yield(config.Desired.ManagedByKubelet)
		return
	}
	m.follow(config)
}

// yield stops this program, because the kubelet makes the partition itself.
func (m *monitor) yield(why string) {
	m.service.status(why)
	m.log.Info(why)
	m.cluster.withdraw(context.Background())
	m.cancel()
}

func (m *monitor) follow(c node.Configuration) {
	switch {
	case c.Problem != nil:
		m.log.Error(
			"the configuration is not valid; following the last good one of this boot",
			"error", c.Problem, "namespaces", c.Namespaces,
		)
		m.cluster.invalid("the configuration is not valid; following the last good one of this boot", c.Problem)
	case c.NotApplied:
		m.log.Warn(node.NotApplied, "namespaces", c.Namespaces)
	default:
		m.log.Debug("configuration", "namespaces", c.Namespaces, "off", c.Off)
	}
	m.mu.Lock()
	m.problem = c.Problem
	m.mu.Unlock()
	m.setConfigured(c)
	m.changes.note()
	m.runtime.Reconsider()
	m.reconciler.SetConfig(c.Config)
	eviction := c.Thresholds.Config(m.options.Eviction)
	eviction.Lowering = c.Deferral != nil
	if err := lowering.Announce(!eviction.Off && !eviction.DryRun); err != nil {
		m.log.Error(
			"recording for the generator whether pods are evicted failed; it may apply a lowered memoryLimit at once",
			"error", err,
		)
	}
	m.evictor.SetConfig(eviction)
}

func (m *monitor) noteReloaded() {
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
			m.reload(node.LoadReloaded)
		}
	}
}
