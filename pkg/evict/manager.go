package evict

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"nodepartition/internal/cgroupfs"
)

// Runtime stops containers with a grace period. *cri.Client can.
type Runtime interface {
	Stop(ctx context.Context, id string, grace time.Duration) error
}

// API is the API server.
type API interface {
	// Available reports whether there is one to ask at all: a kubeconfig.
	Available() bool
	// Evict has a pod end as after the kubelet's own eviction. It may be called again for the same eviction. An error that
	// is ErrFinal is not worth another attempt.
	Evict(ctx context.Context, e Eviction) error
	// Confirm reports whether the pod has ended and its kubelet knows, and has it end again where somebody has overwritten it.
	Confirm(ctx context.Context, e Eviction) (settled bool, err error)
}

// ErrFinal says that another attempt would end as this one.
var ErrFinal = errors.New("not tried again")

// Manager looks, decides and acts. All fields are needed.
type Manager struct {
	// Cgroups is the mount, and Slice the path of the partition below it.
	Cgroups cgroupfs.FS
	Slice   string
	// Pods are the pods in the partition, without figures, those that nobody knows too. It returns at once.
	Pods func() []Pod
	// Refresh has it found out who they are that nobody knows. It returns at once.
	Refresh func()
	// Scopes lists the scopes of containers below a pod's cgroup, those too that were started a moment ago, by container ID.
	Scopes func(podCgroup string) (map[string]string, error)
	// Rest lists the cgroups of all containers of a pod, in and outside of the partition.
	Rest func(uid string) []string
	// Kill kills all processes of a cgroup at once (KillCgroup), or returns an error that is fs.ErrNotExist where the kernel cannot.
	Kill    func(cgroup string) error
	Runtime Runtime
	API     API
	Store   Store
	// LowerLimit has systemd apply a memory limit that was lowered below what the partition used.
	LowerLimit func(ctx context.Context) error
	// Burst is how fast the partition may grow out of silence, in bytes per second (MeasureBurst); MaxBurst where it is zero.
	Burst    float64
	Observer Observer
	Journal  Journal

	mu     sync.Mutex
	config Config
	report Report
	alarm  *Alarm
	told   []told
	looked time.Time
	// evicting are the UIDs of pods that go for good, the open evictions and the last ones.
	evicting map[string]bool

	// Of the goroutine in Run.
	state   State
	last    []Eviction
	meter   *cgroupfs.MemoryMeter
	nobody  time.Time // when it was last said
	full    time.Time // when memory.stat was last read
	dryRun  map[string]time.Time
	staysAt time.Time // when it was last seen whether Stays still do
	lowered time.Time
	// lowerings are the reloads for the limit lowering.
	lowerings int
	lowering  uint64
	raised    time.Time // since when the limit in force is above the configured one
	growth    growth
	oom       oomEvents
	warned    map[string]time.Time
	resumed   bool
	reported  bool // by memory.events, since the last look
	watching  sync.WaitGroup
}

// told is the outcome of telling the API server.
type told struct {
	uid string
	at  time.Time
	err error
	// evicted tells that only confirming it failed.
	evicted bool
}

type growth struct {
	at   time.Time
	used uint64
}

type oomEvents struct {
	known           bool
	killed, atLimit uint64
	// at is when atLimit grew, and counted when it was last looked at.
	at, counted time.Time
}

const (
	// endTimeout is how long containers may take to end after their grace period.
	endTimeout = 10 * time.Second
	// drainTimeout is how long memory may take to come back after that where the pod stays.
	drainTimeout = 2 * time.Second
	// reclaimTimeout is how long it may take where the pod ends: the kubelet unmounts what it has, and waits for that as long itself
	// (podCleanupTimeout, pkg/kubelet/eviction/eviction_manager.go).
	reclaimTimeout = 30 * time.Second
	// rereadDelay is how much later memory is read again before a pod goes: between 5.16 and 6.7 the kernel skips adding up memory.stat while another
	// process has it do so, and page cache of the last milliseconds counts as used then (mem_cgroup_flush_stats).
	rereadDelay = 3 * time.Millisecond
	// drainPollInterval is how often one looks whether they have.
	drainPollInterval = 5 * time.Millisecond
	// apiTimeout is how long the API server is asked: after that the kubelet has long started the containers again.
	apiTimeout = 10 * time.Second
	// retryInterval is how long a dry run, a failed LowerLimit and what was said wait.
	retryInterval = time.Minute
	// maxLowerings is how often LowerLimit is tried for one limit: what does not lower it then, will not.
	maxLowerings = 5
	// statInterval is how old memory.stat may be where the limit is far: available memory is reported by it.
	statInterval = time.Second
	// lookTimeout is how long a look may take: each of its files is the kernel's.
	lookTimeout = 30 * time.Second
)

// SetConfig gives another configuration, which the next look follows.
func (m *Manager) SetConfig(c Config) {
	m.mu.Lock()
	m.config = c
	alarm := m.alarm
	m.mu.Unlock()
	if alarm != nil {
		alarm.Wake()
	}
}

// present is the configuration.
func (m *Manager) present() Config {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.config
}

// Alive returns an error when no look was begun or failed for much longer than one can take.
func (m *Manager) Alive() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.looked.IsZero() {
		return nil // Run has not begun
	}
	if since := time.Since(m.looked); since > lookTimeout {
		return fmt.Errorf("eviction: nobody has looked at the memory of the partition for %s", since.Round(time.Second))
	}
	return nil
}

// Report returns what the last look found.
func (m *Manager) Report() Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.report
}

// Evicting tells whether a pod is being evicted for good, or was a moment ago.
func (m *Manager) Evicting(uid string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.evicting[uid]
}

// Run looks after the partition until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	defer m.watching.Wait()
	defer m.close()
	m.load()
	for {
		if err := m.wait(ctx, m.step(ctx)); err != nil {
			return err
		}
	}
}

// load goes on where an earlier run ended.
func (m *Manager) load() {
	m.dryRun, m.warned = map[string]time.Time{}, map[string]time.Time{}
	history, err := m.Store.Read()
	if err != nil {
		m.failed(Eviction{}, StepState, err) // and begin anew
	}
	m.state, m.last = State{Open: history.Open, Cooldown: history.Cooldown, Stays: history.Stays}, history.Last
	if m.state.Cooldown == nil {
		m.state.Cooldown = map[string]time.Time{}
	}
	if m.state.Stays == nil {
		m.state.Stays = map[string]uint64{}
	}
	for owner, until := range m.state.Cooldown {
		// The clock may have been set back since it was written down.
		m.state.Cooldown[owner] = time.Now().Add(min(time.Until(until), m.present().Cooldown))
	}
	m.remember()
}

// step looks once, and returns when to look again.
func (m *Manager) step(ctx context.Context) time.Duration {
	next, err := m.look(ctx)
	m.mu.Lock()
	m.looked = time.Now()
	if err != nil {
		m.report = Report{} // what is not seen is not reported
	}
	m.mu.Unlock()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		m.close() // the slice is gone, or was made again
		return maxPollInterval
	case err != nil:
		m.Observer.Failed(StepLook)
		m.warn(fmt.Errorf("nobody is evicted while the memory of the partition cannot be read: %w", err))
		return time.Second
	}
	return next
}

// wait waits for the next look.
func (m *Manager) wait(ctx context.Context, d time.Duration) error {
	m.mu.Lock()
	alarm := m.alarm
	m.mu.Unlock()
	if alarm != nil {
		var err error
		m.reported, err = alarm.Wait(ctx, d)
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// openFiles opens the files of the partition.
func (m *Manager) openFiles() error {
	if m.meter != nil {
		return nil
	}
	meter, err := m.Cgroups.MemoryMeter(m.Slice)
	if err != nil {
		return err
	}
	alarm, pressureErr, err := NewAlarm(m.Cgroups.Path(m.Slice))
	if err != nil {
		meter.Close()
		return err
	}
	if pressureErr != nil {
		m.warn(fmt.Errorf("no wake-up by memory pressure, going on with ticks: %w", pressureErr))
	}
	m.meter, m.growth, m.oom, m.reported, m.full = meter, growth{}, oomEvents{}, true, time.Time{}
	m.mu.Lock()
	m.alarm = alarm
	m.mu.Unlock()
	return nil
}

func (m *Manager) close() {
	if m.meter != nil {
		m.meter.Close()
		m.meter = nil
	}
	m.mu.Lock()
	alarm := m.alarm
	m.alarm = nil
	m.mu.Unlock()
	if alarm != nil {
		alarm.Close()
	}
}

// look looks once, decides and acts, and returns when to look again.
func (m *Manager) look(ctx context.Context) (time.Duration, error) {
	s := Snapshot{Now: time.Now(), API: m.API.Available(), Config: m.present()}
	readErr := m.read(&s)
	if !m.resumed {
		m.resumed = true
		m.resume(ctx, s, readErr == nil)
	}
	m.progress(ctx)
	if readErr != nil {
		return 0, readErr
	}
	if m.reported || s.Now.Sub(m.oom.counted) >= statInterval {
		s.OutOfMemory = m.countKills()
	}
	m.forgetStays(s.Now)
	d := m.decide(s)
	if d.Victim != nil {
		// A pod does not go for one reading.
		select {
		case <-ctx.Done():
			return 0, nil
		case <-time.After(rereadDelay):
		}
		if err := m.read(&s); err != nil {
			return 0, err
		}
		d = m.decide(s)
	}
	m.state = d.State
	m.note(s, d)
	for _, e := range d.Hurry {
		m.hurry(ctx, e, Hard)
	}
	switch {
	case d.Victim != nil:
		m.begin(ctx, s, d)
	case d.Held == HoldUnknown:
		m.Refresh()
	case d.LowerLimit && s.Now.After(m.lowered):
		m.lower(ctx, s.Config.Limit)
	}
	return m.next(s, d), nil
}

// read reads the memory of the partition. Far from the threshold memory.stat is left out, but once in statEvery.
func (m *Manager) read(s *Snapshot) error {
	if err := m.openFiles(); err != nil {
		return err
	}
	full := true
	reading, err := m.meter.Read(func(current, limit uint64) bool {
		if s.Config.Lowering {
			limit = min(s.Config.Limit, limit)
		}
		far := limit-min(current, limit) > 2*max(s.Config.Hard, s.Config.Soft)+s.Config.MinimumReclaim
		full = !far || len(m.state.Open) > 0 || s.Now.Sub(m.full) >= statInterval
		return !full
	})
	if err != nil {
		return err
	}
	if full {
		m.full = s.Now
	}
	s.Memory = reading
	return nil
}

// decide asks for the pods where they are needed, and decides.
func (m *Manager) decide(s Snapshot) Decision {
	s.State = m.state // progress has changed it
	if Pressure(s) {
		s.Pods = m.measured()
	}
	return m.choose(s)
}

// forgetStays drops pods that are gone, and those whose memory has come back after all: what they take later is theirs to give back. That has
// to be seen when it happens, which may be long before memory is low again.
func (m *Manager) forgetStays(now time.Time) {
	if len(m.state.Stays) == 0 || now.Sub(m.staysAt) < maxPollInterval {
		return
	}
	m.staysAt = now
	pods, changed := m.Pods(), false
	// Before the kubelet and the first pass have told who is there, one that is missing may be there all the same.
	told := len(pods) > 0 && !slices.ContainsFunc(pods, func(p Pod) bool { return p.Unknown })
	for uid, bytes := range m.state.Stays {
		i := slices.IndexFunc(pods, func(p Pod) bool { return p.UID == uid })
		left := uint64(0)
		switch {
		case i >= 0:
			reading, err := m.Cgroups.Memory(pods[i].Cgroup)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				continue
			}
			left = reading.Used()
		case !told:
			continue
		}
		switch {
		case left <= bytes/2:
			delete(m.state.Stays, uid)
		case left < bytes:
			m.state.Stays[uid] = left
		default:
			continue
		}
		changed = true
	}
	if changed {
		m.save()
	}
}

// lower has systemd apply a limit that was lowered.
func (m *Manager) lower(ctx context.Context, limit uint64) {
	if limit != m.lowering {
		m.lowering, m.lowerings = limit, 0
	}
	if m.lowerings++; m.lowerings > maxLowerings {
		return
	}
	m.lowered = time.Now().Add(retryInterval)
	m.watching.Go(func() {
		if err := m.LowerLimit(ctx); err != nil && ctx.Err() == nil {
			m.Journal.Warn(fmt.Errorf("applying the lowered memory limit: %w; it is tried again", err))
		}
	})
}

// next is when to look again.
func (m *Manager) next(s Snapshot, d Decision) time.Duration {
	used := s.Memory.Used()
	speed := 0.0
	if m.growth.at.Before(s.Now) && !m.growth.at.IsZero() && used > m.growth.used {
		speed = float64(used-m.growth.used) / s.Now.Sub(m.growth.at).Seconds()
	}
	m.growth = growth{s.Now, used}
	c := s.Effective()
	distance := d.Available - min(c.Hard, d.Available)
	if c.Soft > c.Hard && d.Available >= c.Soft {
		distance = d.Available - c.Soft
	}
	// In pressure the threshold is behind us, and what is left counts.
	interval := Interval(distance, min(c.Hard, d.Available), speed, cmp.Or(m.Burst, MaxBurst))
	switch {
	case s.Config.Off, s.unlimited():
		return statInterval
	case stopping(m.state.Open):
		return drainPollInterval
	case waiting(m.state.Open), d.Held == HoldUnknown, d.Held == HoldDoubt:
		return min(interval, maxPollInterval/10)
	case d.Held == HoldStays:
		// That may last for days, and each look is at all pods: what grows beside it is followed from when it is seen to grow.
		return Interval(d.Available-min(d.State.Floor, d.Available), 0, speed, 1)
	case d.Nobody, d.Held != "", s.Config.DryRun && d.Crossed != "":
		return maxPollInterval
	}
	return interval
}

// stopping reports whether processes are about to end that have no grace period.
func stopping(open []Eviction) bool {
	return slices.ContainsFunc(open, func(e Eviction) bool { return !e.Gone && e.Grace == 0 })
}

// note keeps what the look has found for Report, and says what is new.
func (m *Manager) note(s Snapshot, d Decision) {
	c := s.Effective()
	m.mu.Lock()
	report := Report{
		Time: s.Now, Memory: s.Memory, Limit: s.limit(), Available: d.Available, Hard: c.Hard, Soft: c.Soft,
		Crossed: d.Crossed, Held: d.Held, Nobody: d.Nobody,
	}
	if !m.full.Equal(s.Now) && !m.report.Time.IsZero() {
		// Without memory.stat page cache would count as used.
		report.Memory, report.Available = m.report.Memory, m.report.Available
	}
	m.report = report
	m.mu.Unlock()
	if d.Nobody && s.Now.Sub(m.nobody) >= retryInterval {
		m.nobody = s.Now
		m.Journal.Nobody(d)
		m.Observer.Nobody()
	}
	m.noteRaised(s)
}

// noteRaised says that the limit in force is above the configured one. A limit that was lowered a moment ago is, too, until
// systemd has applied it.
func (m *Manager) noteRaised(s Snapshot) {
	c := s.Config
	if c.Off || c.Lowering || c.Limit == 0 || s.Memory.Max == cgroupfs.Unlimited || s.Memory.Max <= c.Limit+rounding {
		m.raised = time.Time{}
		return
	}
	if m.raised.IsZero() {
		m.raised = s.Now
	}
	if s.Now.Sub(m.raised) >= retryInterval {
		m.warn(fmt.Errorf("memory.max of %s is %d bytes, above the %d of the configuration: guarding the limit in force, which somebody has raised "+
			"(systemctl set-property); systemctl revert takes that back", m.Slice, s.Memory.Max, c.Limit))
	}
}

// measured are the pods with figures.
func (m *Manager) measured() []Pod {
	pods := Measure(m.Cgroups, m.Pods(), m.warn)
	for i := range pods {
		uid := pods[i].UID
		pods[i].Evicted = m.Evicting(uid) || slices.ContainsFunc(m.state.Open, func(e Eviction) bool { return e.UID == uid })
	}
	return pods
}

// Measure returns the pods with figures. Those whose cgroup is gone are left out, and so are those that have neither processes nor memory; of
// those that cannot be read warn hears.
func Measure(cgroups cgroupfs.FS, pods []Pod, warn func(error)) []Pod {
	pods = slices.Clone(pods)
	n := 0
	for _, p := range pods {
		if populated, err := cgroups.Populated(p.Cgroup); err == nil && !populated {
			p.Empty = true
		}
		reading, err := cgroups.Memory(p.Cgroup)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			warn(err) // a pod without figures goes first, as with the kubelet
		}
		p.Usage, p.Measured = Usage{WorkingSet: reading.WorkingSet(), Used: reading.Used()}, err == nil
		if p.Empty && p.Usage.Used == 0 {
			continue
		}
		pods[n] = p
		n++
	}
	return pods[:n]
}

func (m *Manager) wake() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.alarm != nil {
		m.alarm.Wake()
	}
}

// resume takes the steps of evictions that an earlier run left. All of them can be taken twice. One that is old, and that nobody needs any more, is
// given up: its containers may have been started again, and memory is no longer low. So is each where nobody is to be stopped any more.
func (m *Manager) resume(ctx context.Context, s Snapshot, read bool) {
	were := len(m.state.Open)
	m.state.Open = slices.DeleteFunc(m.state.Open, func(e Eviction) bool {
		low := !read || s.available() < s.Effective().threshold(e.Threshold)
		switch {
		case e.Gone:
			return false
		case s.Config.Off || s.Config.DryRun:
			e.Problem = "given up by the next run of this program, which is to stop nobody"
		case time.Since(e.Time) <= reportDeadline || low:
			return false
		default:
			e.Problem = "given up by the next run of this program: it is old, and the partition has memory again"
		}
		m.through(e)
		return true
	})
	if len(m.state.Open) < were {
		m.save()
	}
	for i := range m.state.Open {
		e := &m.state.Open[i]
		e.stopping, e.freed, e.left = time.Now(), time.Now(), e.UsedBytes
		e.late = time.Since(e.Time) > reportDeadline
		m.Journal.Resumed(*e)
		if e.Gone {
			m.tell(ctx, e)
			continue
		}
		m.stop(ctx, *e)
	}
}

// keep adds an eviction to those that status shows.
func (m *Manager) keep(e Eviction) {
	m.last = append(m.last, e)
	m.last = m.last[max(0, len(m.last)-historySize):]
}

// save writes the state down. An eviction is not put off where that fails: it would be made twice at worst.
func (m *Manager) save() {
	m.remember()
	if err := m.Store.write(History{Open: m.state.Open, Cooldown: m.state.Cooldown, Stays: m.state.Stays, Last: m.last}); err != nil {
		m.failed(Eviction{}, StepState, err)
	}
}

// remember keeps what Evicting tells.
func (m *Manager) remember() {
	evicting := map[string]bool{}
	for _, e := range slices.Concat(m.last, m.state.Open) {
		if e.Way == Evict && !e.DryRun {
			evicting[e.UID] = true
		}
	}
	m.mu.Lock()
	m.evicting = evicting
	m.mu.Unlock()
}

func (m *Manager) failed(e Eviction, step Step, err error) {
	m.Observer.Failed(step)
	m.Journal.Failed(e, step, err)
}

// warn says what hampers us, each text once a minute.
func (m *Manager) warn(err error) {
	text := err.Error()
	if said, ok := m.warned[text]; ok && time.Since(said) < retryInterval {
		return
	}
	if len(m.warned) >= maxWarnings {
		clear(m.warned)
	}
	m.warned[text] = time.Now()
	m.Journal.Warn(err)
}

// maxWarnings is how many texts are remembered: names of pods are in them.
const maxWarnings = 1000
