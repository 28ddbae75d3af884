// Package daemon implements partition-monitor.service: it places pods, updates limits and weights,
// evicts, and serves metrics and health.
package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/cri"
	"nodepartition/internal/monitor/apiserver"
	"nodepartition/internal/monitor/candidates"
	"nodepartition/internal/monitor/control"
	"nodepartition/internal/monitor/metrics"
	"nodepartition/internal/monitor/node"
	"nodepartition/internal/monitor/options"
	"nodepartition/internal/podsapi"
	"nodepartition/internal/systemd"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/podmove"
	"nodepartition/pkg/podmove/livemove"
	"nodepartition/pkg/podmove/nri"
	"nodepartition/pkg/slices/config"
)

// Options holds the settings of the daemon. All fields are needed.
type Options struct {
	options.Options
	// Tick is the longest time between two passes.
	Tick time.Duration
	// PerPod adds metrics of each pod.
	PerPod bool
	// History keeps a history of samples, and HistoryMembers adds the pods of the partition to it.
	History, HistoryMembers bool
	// Version of the program.
	Version string
	Log     *slog.Logger
}

// monitor holds the parts of the daemon, and what they share.
type monitor struct {
	options Options
	log     *slog.Logger
	service service

	metrics    *metrics.Metrics
	units      *systemd.Client
	kubelet    *podsapi.Watcher
	runtime    *node.Runtime
	live       livemove.Mover
	plugin     *nri.Plugin
	table      podmove.Table
	remembered candidates.Memory
	reconciler *podmove.Reconciler
	evictor    *evict.Manager
	history    *history // nil if none is kept
	api        *apiserver.Reporter
	cluster    *cluster // nil if nothing is recorded in the cluster
	prepare    chan announced
	listening  *listening
	configured configured
	changes    changes
	seen       kubeletSeen // used by passes
	overdue    overdue
	reloaded   chan struct{} // has an element after systemd has reloaded its units

	cancel context.CancelFunc

	recording sync.Mutex // held while the connection over NRI is recorded

	mu           sync.Mutex
	problem      error     // in the configuration
	runtimeSince time.Time // when the runtime began to answer; zero while it does not
	nriLost      time.Time // when the last connection over NRI ended
}

// announced is a pod whose sandbox is being created.
type announced struct {
	sandbox cri.Sandbox
	qos     v1.PodQOSClass
}

// Run runs the daemon until ctx ends, a part fails, or there is nothing left to do: the partition
// is switched off and empty, or the kubelet makes it itself.
func Run(ctx context.Context, o Options) error {
	log := o.Log
	lock, err := lockState()
	if err != nil {
		return err
	}
	defer lock.Close()
	c, err := node.LoadApplied(o.Mode, node.WriteMembers)
	if err != nil {
		for _, problem := range config.Problems(err) {
			log.Error("the configuration is not valid", "error", problem)
		}
		return errors.New("the configuration is not valid: see above")
	}
	m := &monitor{
		options: o, log: log,
		prepare: make(chan announced, 512), reloaded: make(chan struct{}, 1),
	}
	if c.Desired.ManagedByKubelet != "" {
		m.service.status(c.Desired.ManagedByKubelet)
		log.Info(c.Desired.ManagedByKubelet)
		return nil
	}
	if err := checkListen(ctx, o.Listen); err != nil {
		return err
	}
	m.build()
	m.recordNRI() // a killed run may have left a connection
	m.follow(c)
	return m.serve(ctx)
}

func (m *monitor) build() {
	m.reconciler = podmove.NewReconciler()
	m.metrics = metrics.New(metrics.Options{
		Cgroups:    cgroupfs.Mount,
		Reports:    m.reconciler,
		Evictions:  func() evict.Report { return m.evictor.Report() },
		PerPod:     m.options.PerPod,
		Version:    m.options.Version,
		ReadFailed: m.complaints("a scrape could not read a cgroup"),
	})
	m.listening = &listening{address: m.options.Listen, log: m.log, failed: m.metrics.ListenFailed}
	wake := m.reconciler.Wake
	m.units = systemd.New(systemd.Options{
		Wake: wake, OnReloaded: m.noteReloaded, OnConnected: m.connected("systemd"), Documentation: config.Documentation,
	})
	m.overdue = overdue{seen: make(chan struct{}), reload: m.units.Reload, log: m.log}
	m.kubelet = podsapi.NewWatcher(m.options.PodsAPI, wake, m.connected("kubelet"))
	m.runtime = node.NewRuntime(m.options.Runtime, m.connected("runtime"))
	m.plugin = &nri.Plugin{Wake: wake, Announce: m.announce, Connection: m.nriConnected}
	m.reconciler.Gatherer = &podmove.Gatherer{
		Partition: unitname.System,
		Cgroups:   cgroupfs.Mount,
		Runtime:   m.runtime,
		Kubelet:   m.kubelet,
		Announced: m.plugin,
	}
	m.reconciler.Units = units{m.units}
	m.live = livemove.Mover{
		Systemd:  m.units,
		Cgroups:  cgroupfs.Mount,
		StateDir: filepath.Join(filepath.Dir(node.MembersFile), "moving"),
	}
	m.reconciler.Mover = mover{runtime: m.runtime, live: m.live}
	m.reconciler.Placer, m.reconciler.Table = m.plugin, &m.table
	m.reconciler.Events = &placementEvents{metrics: m.metrics, log: m.log, passed: func() {
		known, _ := m.kubelet.Pods()
		m.remembered.Note(cgroupfs.Mount, m.table.Pods(), known)
		m.passed()
		m.lookAtKubelet()
		m.overdue.look()
	}}
	m.reconciler.NRI = m.nri
	m.reconciler.Tick = m.options.Tick
	m.reconciler.RaisedFile = filepath.Join(filepath.Dir(node.MembersFile), "raised.json")
	m.api = apiserver.New(m.options.Eviction.Kubeconfig, m.log)
	m.history = m.newHistory()
	m.evictor = m.newEvictor()
}

// serve runs all parts until ctx ends, one of them fails, or the partition is switched off and
// empty.
func (m *monitor) serve(ctx context.Context) error {
	ctx, m.cancel = context.WithCancel(ctx)
	defer m.cancel()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP) // first of all: an unhandled SIGHUP would end us
	defer signal.Stop(hangup)
	group, ctx := errgroup.WithContext(ctx)
	quiet := func(f func() error) func() error {
		return func() error {
			if err := f(); ctx.Err() == nil {
				return err
			}
			return nil // ended by ctx
		}
	}
	complain := m.complaints("no connection, trying again")
	group.Go(quiet(func() error { return m.units.Run(ctx) }))
	group.Go(quiet(func() error { return m.kubelet.Run(ctx, complain) }))
	group.Go(quiet(func() error {
		return nri.Serve(ctx, m.options.NRI, m.plugin, complain)
	}))
	group.Go(quiet(func() error { return m.prepareSlices(ctx) }))
	m.api.Look() // before the first poll of the memory
	group.Go(quiet(func() error { return m.api.Run(ctx) }))
	for _, run := range m.cluster.runs() {
		group.Go(quiet(func() error { return run(ctx) }))
	}
	group.Go(quiet(func() error { return m.evictor.Run(ctx) }))
	if m.history != nil {
		group.Go(func() error {
			m.history.recorder.Run(ctx, m.history.ring)
			return nil
		})
	}
	group.Go(quiet(func() error { return m.reloads(ctx, hangup) }))
	group.Go(quiet(func() error { return m.overdue.run(ctx) }))
	group.Go(quiet(func() error {
		if err := control.Serve(ctx, control.Socket, m.reconciler, m); err != nil && ctx.Err() == nil {
			m.log.Error(
				"partition-monitor move does not work until the service is restarted",
				"error", err, "socket", control.Socket,
			)
		}
		return nil // only the command move depends on it
	}))
	group.Go(quiet(func() error { return m.service.run(ctx, m.alive, m.prepared) }))
	if m.options.Listen != "" {
		group.Go(quiet(func() error { return m.serveWeb(ctx) }))
	}
	group.Go(quiet(func() error {
		defer m.cancel()
		// A move that a kill interrupted is finished first: it may have left a container frozen.
		if err := m.live.Recover(ctx); err != nil {
			m.log.Error("finishing an interrupted move failed; the next start tries again", "error", err)
		}
		for {
			if err := m.reconciler.Run(ctx); err != nil {
				return err
			}
			if !m.cameBack() {
				break
			}
		}
		m.removePartition(ctx)
		return nil
	}))
	return group.Wait()
}

// alive returns an error when a part of the program hangs: placement or eviction.
func (m *monitor) alive() error { return errors.Join(m.reconciler.Alive(), m.evictor.Alive()) }

// cameBack reports whether there is a partition again: its section may have been restored while the
// last pods left.
func (m *monitor) cameBack() bool {
	config, err := node.LoadApplied(m.options.Mode, node.WriteMembers)
	if err != nil || config.Problem != nil || config.Off || config.Desired.ManagedByKubelet != "" {
		return false
	}
	m.follow(config)
	return true
}

// removePartition stops the slices of a partition that is switched off.
func (m *monitor) removePartition(ctx context.Context) {
	m.log.Info("the system partition is switched off and empty: stopping its slices")
	for _, slice := range slices.Backward(unitname.System.Slices()) {
		// A failure is logged but not returned: exiting with an error would make systemd restart this
		// program, again and again.
		if err := m.units.StopConfiguredSlice(ctx, slice); err != nil {
			m.log.Error("stopping a slice of the partition failed; stop it with systemctl stop", "slice", slice, "error", err)
		}
	}
	m.cluster.withdraw(ctx)
	m.service.status("The system partition is switched off")
}

func (m *monitor) announce(s cri.Sandbox, q v1.PodQOSClass) {
	select {
	case m.prepare <- announced{s, q}:
	default:
		m.reconciler.Wake() // a pass prepares all of them
	}
}

func (m *monitor) prepareSlices(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case a := <-m.prepare:
			m.reconciler.Prepare(ctx, a.sandbox, a.qos)
		}
	}
}

// complaints returns a function that logs an error, unless it has logged one with the same text.
func (m *monitor) complaints(what string) func(error) {
	var mu sync.Mutex
	last := map[string]bool{}
	return func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if len(last) > 100 {
			clear(last)
		}
		if text := err.Error(); !last[text] {
			last[text] = true
			m.log.Warn(what, "error", err)
		}
	}
}
