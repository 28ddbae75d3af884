package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"node-partition.io/node-partition/internal/cluster"
	"node-partition.io/node-partition/internal/daemon/metrics"
	"node-partition.io/node-partition/internal/journallog"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/systemd"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/podmove/livemove"
	"node-partition.io/node-partition/pkg/podmove/nri"
	"node-partition.io/node-partition/pkg/slices/config"
)

// Options holds the settings of the daemon. All fields are needed.
type Options struct {
	node.Options
	// Tick is the time between two reconciles without an event, or five minutes if that is more and
	// nothing happens.
	Tick time.Duration
	// PerPod adds metrics of each pod.
	PerPod bool
	// Validate has the runtime refuse containers that require us and would start outside.
	Validate bool
	// WebConfig is the path of a web configuration file for Listen; empty means that neither TLS nor a
	// password is asked for.
	WebConfig string
	// Textfile is the folder to which the metrics are written for node_exporter; empty means none.
	Textfile string
	// Version of the program.
	Version string
	Log     *slog.Logger

	logDropped func() uint64 // set by Run
}

// monitor is the daemon: the partitions, what they share, and what the program does besides.
type monitor struct {
	options Options
	log     *slog.Logger

	metrics     *metrics.Metrics
	units       *systemd.Client
	kubelet     *kubelet.Watcher
	runtime     *node.Runtime
	live        livemove.Mover
	plugin      *nri.Plugin
	signals     *podmove.Signals
	table       podmove.Table
	reconciler  *podmove.Reconciler
	api         *cluster.Reporter
	partitions  partitions
	connections connections
	// killer and burst are what the evictions of all partitions have in common.
	killer evict.Killer
	burst  float64
	// reloading is held while the decision is read and followed: of two, the older one might win.
	reloading sync.Mutex
	followed  following
	budgeting sync.Mutex // held while the budget is computed
	// pressure is the threshold of the kubelet that has connected, in bytes; nil before it was read.
	pressure  atomic.Pointer[int64]
	service   service
	sizes     *sampler
	marks     *cluster.Keeper   // runs if there is a kubeconfig
	recorder  *cluster.Recorder // nil if faults are not recorded in the cluster
	listening *listening
	changes   changes
	seen      kubeletSeen // used by passes
	overdue   overdue
	reloaded  chan struct{} // has an element after systemd has reloaded its units
	cancel    context.CancelFunc
}

// Run runs the daemon until ctx ends, a part fails, or there is nothing left to do: the partition
// is switched off and empty, or the kubelet makes it itself.
func Run(ctx context.Context, o Options) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP) // first of all: an unhandled SIGHUP would end us
	defer signal.Stop(hangup)
	queue := journallog.NewQueue(o.Log.Handler()) // no part waits for who reads the log
	defer queue.Close()
	//guard: a log that is not read stops nothing
	log := slog.New(queue)
	o.Log, o.logDropped = log, queue.Dropped
	lock, err := lockState(o.Node)
	if err != nil {
		return err
	}
	defer lock.Close()
	c, err := node.Load(o.Node, o.Mode)
	if err != nil {
		return fmt.Errorf("what to follow is not known, and nothing is moved, evicted or removed: %w", err)
	}
	m := &monitor{options: o, log: log, reloaded: make(chan struct{}, 1)}
	why := c.ManagedByKubelet
	if why != "" && len(c.Partitions) == 0 {
		m.options.Textfile = ""
	}
	claim := o.Node.Path(filepath.Join(node.StateDir, "textfile"))
	if err := metrics.ClaimTextfile(claim, m.options.Textfile); err != nil {
		log.Warn("the metrics that an earlier run has written for node_exporter may stay", "error", err)
	}
	if why != "" {
		log.Info(why)
		if len(c.Partitions) == 0 {
			m.service.status(why)
			return nil
		}
	}
	if err := checkListen(ctx, o.Listen); err != nil {
		return err
	}
	m.build()
	m.recordNRI() // a killed run may have left a connection
	m.follow(c)
	return m.serve(ctx, hangup)
}

// build makes the parts that the partitions share, in the order in which they need one another.
func (m *monitor) build() {
	m.signals = podmove.NewSignals()
	m.metrics = metrics.New(metrics.Options{
		Cgroups:    m.options.Node.Cgroups,
		PerPod:     m.options.PerPod,
		Version:    m.options.Version,
		ReadFailed: m.complaints("a scrape could not read a cgroup"),
		LogDropped: m.options.logDropped,
	})
	m.listening = newListening(m.options)
	m.units = systemd.New(systemd.Options{
		Cgroups: m.options.Node.Cgroups, Path: m.options.Node.Path,
		Wake: m.signals.Wake, OnReloaded: m.noteReloaded,
		OnConnected:   m.connected("systemd"),
		Documentation: config.Documentation,
	})
	m.overdue = overdue{seen: make(chan struct{}), reload: m.units.Reload, log: m.log}
	reached := m.connected("kubelet")
	m.kubelet = kubelet.NewWatcher(m.options.PodsAPI, m.signals.Wake, func(up bool) {
		if reached(up); up {
			m.marks.KubeletStarted()
			m.pressure.Store(nil) // it has read its files when it started
		}
	})
	m.runtime = node.NewRuntime(m.options.Node, m.options.Runtime, m.serviceCommand, m.connected("runtime"))
	m.live = livemove.Mover{
		Systemd:  m.units,
		Cgroups:  m.options.Node.Cgroups,
		StateDir: m.options.Node.Path(filepath.Join(node.StateDir, "moving")),
	}
	m.api = cluster.NewReporter(m.options.Node, m.options.Eviction.Kubeconfig, m.log)
	m.plugin = &nri.Plugin{
		Wake: m.signals.Wake, Announce: m.signals.Announce, Connection: m.nriConnected,
	}
	events := newPlacementEvents(m.metrics, m.log, m.afterTick)
	if m.options.Validate {
		m.plugin.Refused = events.Placed
	}
	m.sizes = m.newSampler()
	m.marks, m.recorder = m.newNodeStatus(), m.newRecorder()
	m.burst = m.measureBurst()
	m.partitions.units = m.units
	m.partitions.failed = m.complaints("the slice of a partition could not be started; the next reconcile tries again")
	m.partitions.unstopped = m.complaints(stopFailed)
	//guard: the metrics follow passes and polls
	m.metrics.Follow(&m.table)
	m.metrics.FollowMembers(m.membersMemory())
	m.reconciler = podmove.New(podmove.Options{
		Gatherer: &podmove.Gatherer{
			Cgroups: m.options.Node.Cgroups, Proc: m.options.Node.Proc,
			Runtime: m.runtime, Kubelet: m.kubelet, Announced: m.plugin,
		},
		Units:      m.units,
		Stop:       m.runtime.Stop,
		Live:       m.live.Move,
		Placer:     m.plugin,
		Events:     events,
		NRI:        m.nri,
		Recover:    m.recoverMoves,
		Table:      &m.table,
		Signals:    m.signals,
		Tick:       m.options.Tick,
		RecordFile: m.options.Node.Path(filepath.Join(node.StateDir, "placement.json")),
	})
}

// recoverMoves finishes a move that a kill interrupted. It may have left a container frozen.
func (m *monitor) recoverMoves(ctx context.Context) {
	if err := m.live.Recover(ctx); err != nil {
		m.log.Error("finishing an interrupted move failed; the next start tries again", "error", err)
	}
}

// afterTick is called at each tick, after the reconcile if there is one.
func (m *monitor) afterTick() {
	for _, p := range m.partitions.all() {
		known, _ := m.kubelet.Pods()
		p.remembered.Note(m.options.Node.Cgroups, m.table.Pods(), known)
	}
	m.comeAndGo(m.table.Report().Empty)
	m.passed()
	if m.pressure.Load() == nil {
		m.notePressure()
	}
	m.lookAtKubelet()
	m.overdue.look(m.options.Node.Root)
	m.lookAtRefused()
}

// comeAndGo starts the slices of new partitions, and ends those that are empty or the kubelet's. It
// takes a few calls of systemd at most, and less time than a reconcile may.
func (m *monitor) comeAndGo(empty []partition.Name) {
	m.partitions.changing.Lock() // not in the time below: a reload may end an evictor
	defer m.partitions.changing.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), comeAndGoTimeout)
	defer cancel()
	m.startSlices(ctx)
	m.removeEmpty(ctx, empty)
	m.endTaken()
}

// comeAndGoTimeout bounds comeAndGo while systemd does not answer.
const comeAndGoTimeout = 10 * time.Second

// serve runs all parts until ctx ends, one of them fails, or the partition is switched off and
// empty.
func (m *monitor) serve(ctx context.Context, hangup <-chan os.Signal) error {
	ctx, m.cancel = context.WithCancel(ctx)
	defer m.cancel()
	complain := m.complaints("no connection, trying again")
	m.api.Look() // before the first poll of the memory
	err := inOrder(ctx,
		m.units.Run, // the writer of the Node, and what stops the slices, need it last
		func(ctx context.Context) error { return m.kubelet.Run(ctx, complain) },
		m.api.Run,
		m.record,
		m.partitions.run,
		m.sizes.run,
		func(ctx context.Context) error { return m.reloads(ctx, hangup) },
		m.overdue.run,
		// Each may wait for clients at its end, and systemd waits for all (TimeoutStopSec=).
		together(
			m.serveControl,
			func(ctx context.Context) error { return m.service.run(ctx, m.alive, m.prepared) },
			m.serveWeb,
			m.serveTextfile,
		),
		together(m.place, m.keepNodeStatus),
		// a pod that starts after the last reconcile would get a slice without limits
		func(ctx context.Context) error { return nri.Serve(ctx, m.options.NRI, m.plugin, complain) },
	)
	m.removeTextfile()
	return err
}

// serveControl answers commands until ctx ends. The commands status and move, and what asks whether
// the service is ready, depend on it.
func (m *monitor) serveControl(ctx context.Context) error {
	failed := m.complaints("commands are not answered, trying again")
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		err := ServeControl(ctx, m.options.Node.Path(node.ControlSocket), Requests{
			Pods: m.reconciler, Ready: m, Listening: m.listening.served.Err, Web: m.webHandler(node.ControlHost),
		})
		if err != nil && ctx.Err() == nil {
			failed(err)
		}
	}, controlPause)
	return nil
}

// controlPause is the time between two attempts to answer commands.
const controlPause = 5 * time.Second

// place places pods until ctx ends, or until there is no partition any more. Then it ends the
// program.
func (m *monitor) place(ctx context.Context) error {
	defer m.cancel()
	for {
		if err := m.reconciler.Run(ctx); err != nil {
			last := context.WithoutCancel(ctx)
			m.stopEmptied(last)
			if m.isStopping(last) { // the next boot may be without a partition, and without this program
				m.listening.ended.Store(true)
			}
			return err
		}
		if !m.cameBack(ctx) {
			break
		}
	}
	m.removePartitions(ctx)
	return nil
}

// alive returns an error when a part of the program hangs: placement or eviction.
func (m *monitor) alive() error {
	err := m.reconciler.Alive()
	for _, p := range m.partitions.all() {
		//guard: the watchdog asks eviction
		err = errors.Join(err, p.evictor.Alive())
	}
	return err
}

// cameBack reports whether there is a partition again: its section may have been restored while the
// last pods left. While that is not known, nothing is removed, and it is asked again.
func (m *monitor) cameBack(ctx context.Context) bool {
	changed := m.changes.after()
	m.reload()
	//guard: no slice is stopped while it is not known what to follow
	if m.followed.now().Unknown {
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(askAgain):
		}
		return true
	}
	return len(m.on()) > 0
}

// askAgain is the longest time between two looks at a decision that is not known.
const askAgain = 10 * time.Second

// removePartitions stops the slices of the partitions, which are switched off.
func (m *monitor) removePartitions(ctx context.Context) {
	for _, name := range m.partitions.names() {
		if m.isOurs(name) {
			m.stopSlices(ctx, name, m.complaints(stopFailed))
		}
	}
	m.leaveNode(ctx)
	m.service.status("All partitions are switched off")
}

// stopEmptied stops the slices of partitions that are all switched off and empty, when this program
// is stopped before it ends by itself: a pod that has left them was not Ready again. No other
// program removes the weights that were set on them, and what stands on the Node. That goes also if
// the files switch all partitions off and pods stay: a package that is removed stops us before
// systemd is reloaded, so that no pod is moved. It takes less than TimeoutStopSec=.
func (m *monitor) stopEmptied(ctx context.Context) {
	names := m.partitions.names()
	// What was followed last may be old: a section may be back, and a slice may be the kubelet's now.
	now, err := node.Load(m.options.Node, m.options.Mode)
	if err != nil {
		return
	}
	//guard: a daemon that is stopped leaves the slices of a partition that is on
	//guard: a daemon that is stopped leaves the slices of a partition that has pods
	//guard: a daemon that is stopped leaves the slices of a partition that has come back
	empty := now.Policy().Off() && len(m.on()) == 0 && !slices.ContainsFunc(names, m.hasPods)
	if empty {
		stopping, cancel := context.WithTimeout(ctx, comeAndGoTimeout)
		defer cancel()
		for _, name := range names {
			if m.exists(name) && !now.IsKubelets(name) {
				m.stopSlices(stopping, name, m.complaints(stopFailed))
			}
		}
	}
	files, err := config.Load(string(m.options.Node.Root))
	//guard: a daemon that is stopped in an empty partition leaves the condition of the Node
	//guard: a daemon that a removal of its package stops leaves nothing on the Node
	if empty || err == nil && len(files.Partitions) == 0 {
		m.leaveNode(ctx)
	}
}

// mostComplaints bounds the different errors that a function of complaints logs in an hour: each of
// many pods may have one.
const mostComplaints = 100

// complaints returns a function that logs an error, unless it has logged one with the same text
// within the last hour.
func (m *monitor) complaints(what string) func(error) {
	var mu sync.Mutex
	said := map[string]time.Time{}
	return func(err error) {
		mu.Lock()
		defer mu.Unlock()
		maps.DeleteFunc(said, func(_ string, at time.Time) bool { return time.Since(at) >= time.Hour })
		//guard: complaints that are remembered are bounded
		if text := err.Error(); said[text].IsZero() && len(said) < mostComplaints {
			said[text] = time.Now()
			m.log.Warn(what, "error", err)
		}
	}
}
