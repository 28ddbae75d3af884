package daemon

import (
	"errors"
	"fmt"
	"time"

	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/pkg/podmove"
)

// nriPatience is the longest time for which connections to NRI's socket may be refused while the
// runtime itself answers. After that NRI counts as switched off: its socket file remains then.
const nriPatience = time.Minute

// nri returns the state of creation-time placement. While a runtime restarts we wait for it,
// instead of moving pods. We wait for a runtime that has accepted the connection, however long it
// takes: containerd synchronizes no plugin while a container has its grace period
// (containerd/containerd#14083).
func (m *monitor) nri() podmove.NRIState {
	if m.plugin.Connected() {
		return podmove.Working
	}
	if !node.IsSocket(m.options.NRI) {
		return podmove.Unavailable
	}
	c := &m.connections
	c.mu.Lock()
	defer c.mu.Unlock()
	//guard: a runtime that has taken the connection over NRI is waited for
	refused := m.plugin.RefusedFor() > nriPatience
	if refused && !c.runtimeSince.IsZero() && time.Since(c.runtimeSince) > nriPatience {
		return podmove.Unavailable
	}
	return podmove.Awaited
}

// ready returns what keeps us from placing pods as configured, nil if nothing does.
func (m *monitor) ready() error { return errors.Join(m.unready(), m.followed.problem()) }

// unready returns what keeps us from placing pods, nil if nothing does. The kubelet is not needed:
// it starts after us.
func (m *monitor) unready() error {
	errs := []error{m.reconciler.Ready()}
	if m.nri() == podmove.Awaited {
		errs = append(errs, fmt.Errorf("NRI: %s: not connected to the runtime", m.options.NRI))
	}
	if !m.units.Connected() {
		errs = append(errs, errors.New("systemd: not connected"))
	}
	return errors.Join(errs...)
}

// prepared is ready without the problems that an operator has to repair: the kubelet does not wait
// for those.
func (m *monitor) prepared() error {
	if m.nri() == podmove.Awaited {
		return errors.New("NRI")
	}
	if err := m.marked(); err != nil {
		return err
	}
	return m.reconciler.Ready()
}

func (m *monitor) passed() {
	m.service.status(
		summary(
			m.reconciler.Report(), m.partitions.names(), m.reconciler.Ready(), meaning(m.followed.now()),
			m.listening.served.Err(),
		),
	)
	m.changes.note()
}

func (m *monitor) connected(source string) func(bool) {
	return func(up bool) {
		if m.metrics.Connected(source, up) {
			m.recordConnection(source, up)
			m.log.Info("connection", "to", source, "up", up)
			m.changes.note()
		}
	}
}

// nriConnected is called when the runtime has connected over NRI, or disconnected.
func (m *monitor) nriConnected(up bool) {
	m.connected("nri")(up)
	m.recordNRI()
}

// recordNRI records for the pre-launched plugin whether we are connected.
func (m *monitor) recordNRI() {
	if err := node.RecordNRIConnection(m.options.Node, m.plugin.Connected()); err != nil {
		m.log.Error(
			"recording the connection over NRI failed; the pre-launched plugin may exit too late or too early",
			"error",
			err,
		)
	}
}

// recordConnection stores the times that nri uses.
func (m *monitor) recordConnection(source string, up bool) {
	c := &m.connections
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case source == "runtime" && up:
		c.runtimeSince = time.Now()
	case source == "runtime":
		c.runtimeSince = time.Time{}
	}
}
