package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"

	"nodepartition/internal/daemon/web"
	"nodepartition/internal/node/options"
)

// listening holds whether metrics and health are served. Nothing else depends on it: a process that
// takes the port must not keep pods from being placed and evicted.
type listening struct {
	address string
	log     *slog.Logger
	// failed counts attempts that failed.
	failed func()

	mu   sync.Mutex
	err  error
	said string
}

// Err returns why metrics and health are not served, nil if they are.
func (l *listening) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *listening) changed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
	text := ""
	if err != nil {
		text = err.Error()
		l.failed()
	}
	switch {
	case text == l.said:
	case err != nil:
		l.log.Error("metrics and health are not served, trying again", "error", err, "listen", l.address)
	default:
		l.log.Info("metrics and health are served again", "listen", l.address)
	}
	l.said = text
}

// checkListen refuses an address that can never work.
func checkListen(ctx context.Context, address string) error {
	if address == "" {
		return nil
	}
	if err := web.CheckAddress(ctx, address); err != nil {
		return fmt.Errorf(
			"metrics: --%s: %w; name another address, or none with --%s=",
			options.FlagListen, err, options.FlagListen,
		)
	}
	return nil
}

// serveWeb serves metrics and health until ctx ends.
func (m *monitor) serveWeb(ctx context.Context) error {
	host, _, err := net.SplitHostPort(m.options.Listen)
	if err != nil {
		return err // checkListen would have refused it
	}
	name, err := os.Hostname()
	if err != nil {
		name = "" // the page says "this node"
	}
	handler := web.Handler(web.Options{
		Version:    m.options.Version,
		Node:       name,
		Gatherer:   m.metrics,
		Reports:    m.reconciler,
		Partitions: m.shown,
		History:    m.recent(),
		Cgroups:    m.options.Node.Cgroups,
		Hosts:      []string{host},
		Sources:    m.metrics.Sources,
		Alive:      m.alive,
		Ready:      m.ready,
		ErrorLog:   slog.NewLogLogger(m.log.Handler(), slog.LevelWarn),
	})
	return web.Listener{Address: m.options.Listen, Handler: handler, Changed: func(err error) {
		m.listening.changed(err)
		m.passed()
	}}.Run(ctx)
}
