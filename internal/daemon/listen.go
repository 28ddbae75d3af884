package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"

	"node-partition.io/node-partition/internal/daemon/metrics"
	"node-partition.io/node-partition/internal/daemon/web"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// listening holds whether metrics and health are served. Nothing else depends on it: a process that
// takes the port must not keep pods from being placed and evicted.
type listening struct {
	served, written attempts
	// ended means that no partition is left, or that the node is off soon, and so no metrics.
	ended atomic.Bool
}

// newListening returns a listening that logs what changes.
func newListening(o Options) *listening {
	return &listening{
		served: attempts{
			log:    o.Log.With("listen", o.Listen),
			failed: "metrics and health are not served, trying again", works: "metrics and health are served again",
		},
		written: attempts{
			log:    o.Log.With("folder", o.Textfile),
			failed: "the metrics are not written for node_exporter, trying again", works: "the metrics are written for node_exporter again",
		},
	}
}

// attempts holds the result of what is tried again and again.
type attempts struct {
	log *slog.Logger
	// failed is logged with an error, unless the attempt before had the same one, and works when an
	// attempt succeeds after an error.
	failed, works string

	mu  sync.Mutex
	err error
}

// Err returns the error of the last attempt.
func (a *attempts) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

func (a *attempts) note(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.err
	a.err = err
	switch {
	case err == nil && before != nil:
		a.log.Info(a.works)
	case err != nil && (before == nil || before.Error() != err.Error()):
		a.log.Error(a.failed, "error", err)
	}
}

// checkListen refuses an address that can never work.
func checkListen(ctx context.Context, address string) error {
	if address == "" {
		return nil
	}
	if err := web.CheckAddress(ctx, address); err != nil {
		return fmt.Errorf(
			"metrics: --%s: %w; name another address, or none with --%s=",
			node.FlagListen, err, node.FlagListen,
		)
	}
	return nil
}

// serveWeb serves metrics and health until ctx ends, if they are asked for.
func (m *monitor) serveWeb(ctx context.Context) error {
	if m.options.Listen == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(m.options.Listen)
	if err != nil {
		return err // checkListen would have refused it
	}
	return web.Listener{
		Address: m.options.Listen, Handler: m.webHandler(host), Config: m.options.WebConfig,
		Log: m.log,
		Changed: func(err error) {
			if err != nil {
				m.metrics.ListenFailed()
			}
			m.listening.served.note(err)
			m.passed()
		},
	}.Run(ctx)
}

// webHandler answers requests for metrics, health and the report that address a host.
func (m *monitor) webHandler(host string) http.Handler {
	name, err := os.Hostname()
	if err != nil {
		name = "" // the page says "this node"
	}
	return web.Handler(web.Options{
		Version:  m.options.Version,
		Node:     name,
		Gatherer: m.metrics,
		State:    m.state,
		Hosts:    []string{host},
		Alive:    m.alive,
		Ready:    m.ready,
		ErrorLog: slog.NewLogLogger(m.log.Handler(), slog.LevelWarn),
	})
}

// state reads the state of the node by what is followed and by the last reconcile.
func (m *monitor) state() state.Status {
	found, lent := m.reconciler.Report(), map[partition.Name]uint64{}
	for _, p := range m.partitions.all() {
		lent[p.name] = p.evictor.Report().Lent
	}
	s := node.ReadStatus(
		m.options.Node, m.options.Eviction, m.followed.now(), found,
		func(name partition.Name) []evict.Pod {
			if p := m.partitions.of(name); p != nil {
				return p.evictor.Candidates()
			}
			return nil
		},
		lent,
	)
	if s.Pods == nil {
		s.Pods = []report.Pod{} // a list in JSON, not null
	}
	if found.Time.IsZero() {
		s.PodsUnknown = "the first reconcile has not ended"
	}
	for i := range s.Partitions {
		s.Partitions[i].LastDay = m.sizes.day(s.Partitions[i].Name) // not from the disk, which may hang
		if p := m.partitions.of(s.Partitions[i].Name); p != nil {
			s.Partitions[i].UsedPeakBytes = p.evictor.Report().UsedPeak
		}
	}
	s.Service = "ready"
	if err := errors.Join(m.alive(), m.ready()); err != nil {
		s.Service = "not ready: " + err.Error()
	}
	return s
}

// serveTextfile writes the metrics for node_exporter until ctx ends, if they are asked for.
func (m *monitor) serveTextfile(ctx context.Context) error {
	if m.options.Textfile == "" {
		return nil
	}
	return metrics.Textfile{
		Folder: m.options.Textfile, Gatherer: m.metrics,
		Changed: m.listening.written.note,
	}.Run(ctx)
}

// removeTextfile removes the metrics for node_exporter after the last of them is written, unless
// the service is only restarted or stopped.
func (m *monitor) removeTextfile() {
	if m.options.Textfile == "" || !m.listening.ended.Load() {
		return
	}
	if err := metrics.RemoveTextfile(m.options.Textfile); err != nil {
		m.log.Warn("the metrics for node_exporter are left over", "error", err)
	}
}
