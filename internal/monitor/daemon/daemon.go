// Package daemon is what partition-monitor.service runs: it places pods, keeps limits and weights in step, evicts, and serves
// metrics and health.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/cri"
	"nodepartition/internal/monitor/apiserver"
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
	"nodepartition/pkg/slices/lowering"
)

// Options say what to run. All fields are needed.
type Options struct {
	options.Options
	// Tick is the longest time between two looks at the node.
	Tick time.Duration
	// PerPod has the metrics of each pod served too.
	PerPod bool
	// Version of the program.
	Version string
	Log     *slog.Logger
}

// monitor is what runs: the parts and how they wake each other.
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
	reconciler *podmove.Reconciler
	evictor    *evict.Manager
	api        *apiserver.Reporter
	prepare    chan announced
	listening  *listening
	seen       kubeletSeen   // by passes
	reloaded   chan struct{} // has one element when systemd has read its units

	cancel context.CancelFunc

	mu           sync.Mutex
	problem      error     // of the configuration
	runtimeSince time.Time // when the runtime began to answer; zero while it does not
	nriLost      time.Time // when the last connection over NRI ended
}

// announced is a pod whose sandbox has begun.
type announced struct {
	sandbox cri.Sandbox
	qos     v1.PodQOSClass
}

// Run runs the daemon until ctx ends, one of its parts fails, or there is nothing left to do: the partition is switched off and empty,
// or the kubelet makes it itself.
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
	m := &monitor{options: o, log: log, prepare: make(chan announced, 512), reloaded: make(chan struct{}, 1)}
	if c.Desired.Yields != "" {
		m.service.status(c.Desired.Yields)
		log.Info(c.Desired.Yields)
		return nil
	}
	if err := checkListen(ctx, o.Listen); err != nil {
		return err
	}
	m.build()
	m.follow(c)
	return m.serve(ctx)
}

func (m *monitor) build() {
	m.reconciler = podmove.NewReconciler()
	m.metrics = metrics.New(metrics.Options{
		Cgroups: cgroupfs.Mount, Reports: m.reconciler, Evictions: func() evict.Report { return m.evictor.Report() }, PerPod: m.options.PerPod, Version: m.options.Version,
		ReadFailed: m.complaints("a scrape could not read a cgroup"),
	})
	m.listening = &listening{address: m.options.Listen, log: m.log, failed: m.metrics.ListenFailed}
	wake := m.reconciler.Wake
	m.units = systemd.New(systemd.Options{
		Wake: wake, OnReloaded: m.noteReloaded, OnConnected: m.connected("systemd"), Documentation: config.Documentation,
	})
	m.kubelet = podsapi.NewWatcher(m.options.PodsAPI, wake, m.connected("kubelet"))
	m.runtime = node.NewRuntime(m.options.Runtime, m.connected("runtime"))
	m.plugin = &nri.Plugin{Wake: wake, Announce: m.announce, Connection: m.connected("nri")}
	m.reconciler.Gatherer = &podmove.Gatherer{Partition: unitname.System, Cgroups: cgroupfs.Mount, Runtime: m.runtime, Kubelet: m.kubelet, Announced: m.plugin}
	m.reconciler.Units = units{m.units}
	m.live = livemove.Mover{Systemd: m.units, Cgroups: cgroupfs.Mount, StateDir: filepath.Join(filepath.Dir(node.MembersFile), "moving")}
	m.reconciler.Mover = mover{runtime: m.runtime, live: m.live}
	m.reconciler.Placer, m.reconciler.Table = m.plugin, &m.table
	m.reconciler.Events = &placementEvents{metrics: m.metrics, log: m.log, passed: func() {
		m.passed()
		m.lookAtKubelet()
	}}
	m.reconciler.NRI = m.nri
	m.reconciler.Tick = m.options.Tick
	m.api = apiserver.New(m.options.Eviction.Kubeconfig, m.log)
	m.evictor = m.newEvictor()
}

// serve runs all parts until ctx ends, one of them fails, or the partition is switched off and empty.
func (m *monitor) serve(ctx context.Context) error {
	ctx, m.cancel = context.WithCancel(ctx)
	defer m.cancel()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP) // before anything begins: one that nobody waits for would end us
	defer signal.Stop(hangup)
	group, ctx := errgroup.WithContext(ctx)
	quiet := func(f func() error) func() error {
		return func() error {
			if err := f(); ctx.Err() == nil {
				return err
			}
			return nil // it was told to end
		}
	}
	complain := m.complaints("no connection, trying again")
	group.Go(quiet(func() error { return m.units.Run(ctx) }))
	group.Go(quiet(func() error { return m.kubelet.Run(ctx, complain) }))
	group.Go(quiet(func() error {
		return nri.Serve(ctx, m.options.NRI, m.plugin, complain)
	}))
	group.Go(quiet(func() error { return m.prepareSlices(ctx) }))
	m.api.Look() // before the first look at the memory
	group.Go(quiet(func() error { return m.api.Run(ctx) }))
	group.Go(quiet(func() error { return m.evictor.Run(ctx) }))
	group.Go(quiet(func() error { return m.reloads(ctx, hangup) }))
	group.Go(quiet(func() error {
		if err := control.Serve(ctx, control.Socket, m.reconciler); err != nil && ctx.Err() == nil {
			m.log.Error("partition-monitor move does not work until the service is restarted", "error", err, "socket", control.Socket)
		}
		return nil // nobody depends on it but an operator who asks
	}))
	group.Go(quiet(func() error { return m.service.run(ctx, m.alive, m.prepared) }))
	if m.options.Listen != "" {
		group.Go(quiet(func() error { return m.serveWeb(ctx) }))
	}
	group.Go(quiet(func() error {
		defer m.cancel()
		// What an earlier run was killed in the middle of comes first: a container must not stand still.
		if err := m.live.Recover(ctx); err != nil {
			m.log.Error("a move that was cut short could not be ended; it is tried again with the next start", "error", err)
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

// cameBack reports whether there is a partition after all: the section may have come back while the last pods left.
func (m *monitor) cameBack() bool {
	config, err := node.LoadApplied(m.options.Mode, node.WriteMembers)
	if err != nil || config.Problem != nil || config.Off || config.Desired.Yields != "" {
		return false
	}
	m.follow(config)
	return true
}

// removePartition ends what the generator no longer asks for, and with it this program.
func (m *monitor) removePartition(ctx context.Context) {
	m.log.Info("the system partition is switched off and empty: stopping its slices")
	for _, slice := range []string{unitname.QoSSlice(unitname.System, unitname.BestEffort), unitname.QoSSlice(unitname.System, unitname.Burstable), unitname.System.Slice()} {
		// Not an error of this program: an end with one would be answered with a restart, and that with another.
		if err := m.units.StopConfiguredSlice(ctx, slice); err != nil {
			m.log.Error("a slice of the partition stays; stop it with systemctl stop", "slice", slice, "error", err)
		}
	}
	m.service.status("The system partition is switched off")
}

func (m *monitor) announce(s cri.Sandbox, q v1.PodQOSClass) {
	select {
	case m.prepare <- announced{s, q}:
	default:
		m.reconciler.Wake() // a pass does it for all of them
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

// load is node.LoadApplied, or node.LoadConfig where an operator has asked for it by SIGHUP.
type load func(podmove.Mode, node.Keep) (node.Configuration, error)

// reload follows a changed configuration: after a daemon-reload, and at SIGHUP.
func (m *monitor) reload(load load) {
	config, err := load(m.options.Mode, node.WriteMembers)
	if err != nil {
		m.log.Error("the configuration is not valid; going on with the present one", "error", err)
		return
	}
	if config.Desired.Yields != "" {
		m.yield(config.Desired.Yields)
		return
	}
	m.follow(config)
}

// yield ends this program, because the kubelet does its work.
func (m *monitor) yield(why string) {
	m.service.status(why)
	m.log.Info(why)
	m.cancel()
}

func (m *monitor) follow(c node.Configuration) {
	switch {
	case c.Problem != nil:
		m.log.Error("the configuration is not valid; following the last good one of this boot", "error", c.Problem, "namespaces", c.Namespaces)
	case c.NotApplied:
		m.log.Warn(node.NotApplied, "namespaces", c.Namespaces)
	default:
		m.log.Debug("configuration", "namespaces", c.Namespaces, "off", c.Off)
	}
	m.mu.Lock()
	m.problem = c.Problem
	m.mu.Unlock()
	m.runtime.Reconsider()
	m.reconciler.SetConfig(c.Config)
	eviction := c.Thresholds.Config(m.options.Eviction)
	eviction.Lowering = c.Desired != nil && c.Desired.Deferred
	if err := lowering.Announce(!eviction.Off && !eviction.DryRun); err != nil {
		m.log.Error("the generator cannot be told whether evictions are made; a memoryLimit that is lowered may be applied at once", "error", err)
	}
	m.evictor.SetConfig(eviction)
}

func (m *monitor) noteReloaded() {
	select {
	case m.reloaded <- struct{}{}:
	default: // one is noted
	}
}

// reloads reads the configuration again, one time after the other: of two at once the older might be followed.
func (m *monitor) reloads(ctx context.Context, hangup <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-hangup:
			m.reload(node.LoadConfig)
		case <-m.reloaded:
			m.reload(node.LoadApplied)
		}
	}
}

// nriPatience is how long NRI may be away while the runtime itself answers. After that it is taken for switched off: its socket
// file stays behind when it is.
const nriPatience = time.Minute

// nri tells what can be expected of creation-time placement. A runtime that restarts is waited for, and not answered with moves.
func (m *monitor) nri() podmove.NRIState {
	if m.plugin.Connected() {
		return podmove.Working
	}
	if !node.IsSocket(m.options.NRI) {
		return podmove.Unavailable
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if since := m.runtimeSince; !since.IsZero() && time.Since(since) > nriPatience && time.Since(m.nriLost) > nriPatience {
		return podmove.Unavailable
	}
	return podmove.Awaited
}

// ready tells why we cannot do what we are for, nil where we can. The kubelet is not needed: it starts after us.
func (m *monitor) ready() error {
	errs := []error{m.reconciler.Ready()}
	if m.nri() == podmove.Awaited {
		errs = append(errs, fmt.Errorf("NRI: %s: not connected with the runtime", m.options.NRI))
	}
	if !m.units.Connected() {
		errs = append(errs, errors.New("systemd: not connected"))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(append(errs, m.problem)...)
}

// prepared is ready, but for what an operator has to repair: the kubelet does not wait for that.
func (m *monitor) prepared() error {
	if m.nri() == podmove.Awaited {
		return errors.New("NRI")
	}
	return m.reconciler.Ready()
}

func (m *monitor) passed() {
	m.mu.Lock()
	problem := m.problem
	m.mu.Unlock()
	m.service.status(summary(m.reconciler.Report(), m.reconciler.Err(), problem, m.listening.Err()))
}

func (m *monitor) connected(source string) func(bool) {
	return func(up bool) {
		if m.metrics.Sources()[source] != up {
			m.metrics.Connected(source, up)
			m.keepTime(source, up)
			m.log.Info("connection", "to", source, "up", up)
		}
	}
}

// keepTime keeps what nri decides from.
func (m *monitor) keepTime(source string, up bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case source == "runtime" && up:
		m.runtimeSince = time.Now()
	case source == "runtime":
		m.runtimeSince = time.Time{}
	case source == "nri" && !up:
		m.nriLost = time.Now()
	}
}

// complaints logs what keeps failing once, and again when it fails otherwise.
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
