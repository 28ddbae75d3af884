package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/podmove/nri"
)

// This file is partition-monitor as a plugin that the runtime starts by itself, before it
// serves its first request. Where the runtime and the kubelet are one service, no other service can
// be started between the two. The plugin places members until partition-monitor.service is
// connected, and ends then.

const (
	// handover is the time from the connection of the service to our end. The service records its
	// connection before the runtime calls it for containers: when it answers Synchronize, for which
	// it has two seconds (plugin_request_timeout). CRI-O 1.34 creates containers meanwhile; containerd
	// does not (BlockPluginSync). Both of us answer in this time, and the answers do not conflict.
	handover = 3 * time.Second
	// patience is the longest time without the service. It is longer than a restart by its watchdog
	// takes. Without the service there is no eviction, and the slices of pods have no limits. So a
	// plugin that stays would be worse than none.
	patience = 5 * time.Minute
	look     = 100 * time.Millisecond
)

// plugin is a run of the plugin. Its fields are the node and the runtime.
type plugin struct {
	log *slog.Logger
	// connection identifies the connection of the service to the runtime, empty for none.
	connection func() string
	// members returns the present configuration.
	members func() (podmove.Policy, error)
	// serve serves the runtime until ctx ends or the runtime closes the connection.
	serve func(context.Context, *nri.Prelaunched) error
}

// RunPrelaunched places members until the service is connected, the runtime closes the connection,
// or ctx ends.
func RunPrelaunched(ctx context.Context, n host.Node, log *slog.Logger) error {
	if err := raisePriority(); err != nil { // without CAP_SYS_NICE, as in a container
		log.Debug("the pre-launched plugin runs at default priority", "error", err)
	}
	p := plugin{
		log: log, connection: func() string { return node.NRIConnection(n) },
		members: func() (podmove.Policy, error) { return members(n) }, serve: nri.ServePrelaunched,
	}
	return p.run(ctx)
}

func (p plugin) run(ctx context.Context) error {
	// The service connects to this runtime later: the runtime accepts it after it has synchronized
	// us. A connection recorded before our start belongs to an earlier runtime process.
	before := p.connection()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var placed atomic.Int64
	config := recent(p.members)
	// This brings what an answer needs into memory, from a disk that is busy while the node boots.
	go func() { _, _ = config() }()
	reasons := make(chan error, 1)
	firstReason := (<-chan error)(reasons)
	ended := make(chan error, 1)
	go func() {
		ended <- p.serve(ctx, &nri.Prelaunched{
			Config: config,
			Placed: func() { placed.Add(1) },
			NotPlaced: func(reason error) {
				select {
				case reasons <- reason: // logged elsewhere: the runtime waits, and the journal may be slow
				default:
				}
			},
		})
	}()
	connected := make(chan error, 1)
	go func() { connected <- p.await(ctx, before) }()
	for {
		select {
		case reason := <-firstReason:
			firstReason = nil // most have the same reason, and the service reports all
			p.log.Warn("a container is left where the kubelet put it until partition-monitor.service is connected", "error", reason)
		case err := <-ended:
			if ctx.Err() != nil {
				return nil
			}
			p.log.Warn("the pre-launched plugin ends before partition-monitor.service is connected", "error", err, "placed", placed.Load())
			return err
		case err := <-connected:
			// Before the end: the runtime kills us as soon as the connection is closed (nri 0.12.5,
			// adaptation, plugin.stop).
			switch {
			case err == nil:
				p.log.Info("partition-monitor.service is connected; the pre-launched plugin ends", "placed", placed.Load())
			case errors.Is(err, errAlone) && p.needed():
				p.log.Warn(
					"the pre-launched plugin ends; containers start outside the partition until partition-monitor.service is connected",
					"error", err, "placed", placed.Load(),
				)
			}
			cancel()
			<-ended
			return nil
		}
	}
}

// needed reports whether there is a partition to place members in.
func (p plugin) needed() bool {
	config, err := p.members()
	return err == nil && !config.Off()
}

// errAlone means that the service has not connected.
var errAlone = errors.New("it has not connected within " + patience.String())

// await returns nil when the service has been connected for the time of a hand-over, by another
// connection than before.
func (p plugin) await(ctx context.Context, before string) error {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(look)
	defer tick.Stop()
	last, since := before, time.Time{}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			return errAlone
		case now := <-tick.C:
			id := p.connection()
			switch {
			case id == "" || id == before:
				last = before
			case id != last:
				last, since = id, now
			case now.Sub(since) >= handover:
				return nil
			}
		}
	}
}

// members returns the members as the service follows them. A policy that is off means that there
// are none: the section is missing, the partition is not active yet, or the service is masked.
//
// A decision that cannot be read does not matter where nothing is to be placed: the service does
// not start there, so it would be wrong to announce it.
func members(n host.Node) (podmove.Policy, error) {
	//guard: the pre-launched plugin places nothing for somebody else's slice
	if !node.AnyActive(n) || masked(n) {
		return podmove.Policy{}, nil
	}
	c, err := node.Load(n, podmove.Auto)
	if err != nil {
		return podmove.Policy{}, err
	}
	return c.Policy(), nil
}

// masked reports whether an operator has masked the service, and so wants no pod placed.
func masked(n host.Node) bool {
	for _, dir := range []string{"/etc/systemd/system", "/run/systemd/system"} {
		if target, err := n.Root.Readlink(filepath.Join(dir, partition.MonitorService)); err == nil && target == os.DevNull {
			return true
		}
	}
	return false
}
