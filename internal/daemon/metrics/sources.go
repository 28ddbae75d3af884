package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// sources holds which sources of events and answers are connected.
type sources struct {
	connected  *prometheus.GaugeVec
	reconnects *prometheus.CounterVec

	mu   sync.Mutex
	up   map[string]bool
	lost map[string]bool // was connected, and lost
}

func newSources() *sources {
	s := &sources{
		connected: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "source_connected",
			Help: "1 while there is a connection to a source of events and answers, 0 otherwise.",
		}, []string{"source"}),
		reconnects: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "source_reconnects_total",
			Help: "Times that a lost connection to a source came back.",
		}, []string{"source"}),
		up: map[string]bool{}, lost: map[string]bool{},
	}
	for _, source := range []string{"systemd", "kubelet", "runtime", "nri"} {
		s.connected.WithLabelValues(source)
		s.reconnects.WithLabelValues(source)
		s.up[source] = false
	}
	return s
}

func (s *sources) register(to prometheus.Registerer) { to.MustRegister(s.connected, s.reconnects) }

// Connected records that a source (systemd, kubelet, runtime, nri) was connected or lost, and
// reports whether that is new.
func (m *Metrics) Connected(source string, up bool) (changed bool) {
	s := m.sources
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.up[source]
	switch {
	case up && !was:
		s.connected.WithLabelValues(source).Set(1)
		if s.lost[source] {
			s.reconnects.WithLabelValues(source).Inc()
		}
	case !up && was:
		s.connected.WithLabelValues(source).Set(0)
		s.lost[source] = true
	}
	s.up[source] = up
	return up != was
}
