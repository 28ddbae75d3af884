package daemon

import (
	"log/slog"
	"sync"
	"time"

	"node-partition.io/node-partition/internal/cluster"
	"node-partition.io/node-partition/internal/daemon/metrics"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/systemd"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/podmove/livemove"
	"node-partition.io/node-partition/pkg/podmove/nri"
)

// shared holds the parts of the node that its partitions share.
type shared struct {
	options Options
	log     *slog.Logger

	metrics    *metrics.Metrics
	units      *systemd.Client
	kubelet    *kubelet.Watcher
	runtime    *node.Runtime
	live       livemove.Mover
	plugin     *nri.Plugin
	signals    *podmove.Signals
	table      podmove.Table
	reconciler *podmove.Reconciler
	api        *cluster.Reporter
	namespaces *cluster.Namespaces
}

// connections holds what is known of the connections to the runtime.
type connections struct {
	recording sync.Mutex // held while the connection over NRI is recorded

	mu           sync.Mutex
	runtimeSince time.Time // when the runtime began to answer; zero while it does not
	nriLost      time.Time // when the last connection over NRI ended
}

// problem holds the error of the configuration, nil if it is valid, and what it means.
type problem struct {
	mu   sync.Mutex
	what string
	err  error
}

func (p *problem) set(what string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.err = what, err
}

// now returns the error and what it means for what is followed, empty for none.
func (p *problem) now() (what string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.what, p.err
}

func (p *problem) get() error {
	_, err := p.now()
	return err
}

// text returns the text of the error, empty for none.
func (p *problem) text() string {
	if err := p.get(); err != nil {
		return err.Error()
	}
	return ""
}
