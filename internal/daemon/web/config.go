package web

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	toolkit "github.com/prometheus/exporter-toolkit/web"
)

// checkConfig returns an error if a web configuration file cannot be used. Prometheus and its
// exporters have the same format:
// https://prometheus.io/docs/prometheus/latest/configuration/https/
func checkConfig(path string) error {
	if err := toolkit.Validate(path); err != nil {
		return fmt.Errorf("web configuration %s: %w", path, err)
	}
	return nil
}

// serveProtected serves with the certificates and the passwords of the web configuration, which are
// read again for each connection. If the file gets invalid, it serves nothing and returns why. A
// certificate and its key are not replaced together, so one reading in between proves nothing.
func (l Listener) serveProtected(ctx context.Context, listener net.Listener) error {
	serving, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		tick := time.NewTicker(l.Pause)
		defer tick.Stop()
		for failed := 0; ; {
			select {
			case <-serving.Done():
				return
			case <-tick.C:
			}
			err := checkConfig(l.Config)
			if err == nil {
				failed = 0
			} else if failed++; failed > 1 {
				cancel(err)
				return
			}
		}
	}()
	server := newServer(trusting(l.Handler))
	server.BaseContext = func(net.Listener) context.Context {
		server.Handler = inTurn(server.Handler) // which asks for the password by now
		return context.Background()
	}
	// A port scanner causes a failed handshake with each connection.
	server.ErrorLog = slog.NewLogLogger(l.Log.Handler(), slog.LevelDebug)
	log := slog.New(problems{l.Log.Handler()})
	err := serveBy(serving, listener, server, func(s *http.Server, listener net.Listener) error {
		return toolkit.Serve(listener, s, &toolkit.FlagConfig{WebConfigFile: &l.Config}, log)
	})
	if ctx.Err() == nil && serving.Err() != nil {
		return context.Cause(serving)
	}
	return err
}

// problems passes on what is worse than information. The library informs of each start.
type problems struct{ slog.Handler }

// Enabled implements slog.Handler.
func (p problems) Enabled(ctx context.Context, level slog.Level) bool {
	return level > slog.LevelInfo && p.Handler.Enabled(ctx, level)
}
