package evict

import (
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
	// Pods are the pods with containers in the partition, without figures. It returns at once.
	Pods func() []Pod
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
	Observer   Observer
	Journal    Journal

	mu     sync.Mutex
	config Config
	report Report
	alarm  *Alarm
	told   []told
	// evicting are the UIDs of pods that go for good, the open evictions and the last ones.
	evicting map[string]bool

	// Of the goroutine in Run.
	state    State
	last     []Eviction
	meter    *cgroupfs.MemoryMeter
	nobody   bool // has been said
	dryRun   map[string]time.Time
	lowered  time.Time
	growth   growth
	oom      oomEvents
	warned   map[string]bool
	resumed  bool
	reported bool // by memory.events, since the last look
	watching sync.WaitGroup
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
	// at is when atLimit grew.
	at time.Time
}

const (
	// endTimeout is how long containers may take to end after their grace period.
	endTimeout = 10 * time.Second
	// drainTimeout is how long memory may take to come back after that.
	drainTimeout = 2 * time.Second
	// looks is how often one looks whether they have.
	looks = 5 * time.Millisecond
	// apiTimeout is how long the API server is asked: after that the kubelet has long started the containers again.
	apiTimeout = 10 * time.Second
	// again is how long a dry run and a failed LowerLimit wait.
	again = time.Minute
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
	m.dryRun, m.warned = map[string]time.Time{}, map[string]bool{}
	history, err := m.Store.Read()
	if err != nil {
		m.failed(Eviction{}, StepState, err) // and begin anew
	}
	m.state, m.last = State{Open: history.Open, Cooldown: history.Cooldown}, history.Last
	if m.state.Cooldown == nil {
		m.state.Cooldown = map[string]time.Time{}
	}
	m.remember()
}

// step looks once, and returns when to look again.
func (m *Manager) step(ctx context.Context) time.Duration {
	next, err := m.look(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		m.close() // the slice is gone, or was made again
		return longest
	case err != nil:
		m.warn(err)
		return longest
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

// open opens the files of the partition.
func (m *Manager) open() error {
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
	m.meter, m.growth, m.oom, m.reported = meter, growth{}, oomEvents{}, true
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
	begin := time.Now()
	s := Snapshot{Now: begin, API: m.API.Available()}
	m.mu.Lock()
	s.Config = m.config
	m.mu.Unlock()
	if !m.resumed {
		m.resumed = true
		m.resume(ctx)
	}
	m.progress(ctx)
	if err := m.open(); err != nil {
		return 0, err
	}
	reading, err := m.meter.Read(func(current, limit uint64) bool {
		return available(min(s.Config.Limit, limit), current) > 2*max(s.Config.Hard, s.Config.Soft)+s.Config.MinimumReclaim
	})
	if err != nil {
		return 0, err
	}
	s.Memory = Memory(reading)
	s.State = m.state
	if Pressure(s) {
		s.Pods = m.measured()
	}
	d := m.choose(s)
	m.state = d.State
	m.note(s, d)
	for _, e := range d.Hurry {
		m.hurry(ctx, e, Hard)
	}
	switch {
	case d.Victim != nil:
		m.begin(ctx, s, d)
	case d.LowerLimit && begin.After(m.lowered):
		m.lowered = begin.Add(again)
		m.watching.Go(func() {
			if err := m.LowerLimit(ctx); err != nil && ctx.Err() == nil {
				m.Journal.Warn(fmt.Errorf("applying the lowered memory limit: %w; it is tried again", err))
			}
		})
	}
	if m.reported {
		m.countKills()
	}
	return m.next(s, d), nil
}

// next is when to look again.
func (m *Manager) next(s Snapshot, d Decision) time.Duration {
	used := s.Memory.Used()
	speed := 0.0
	if m.growth.at.Before(s.Now) && !m.growth.at.IsZero() && used > m.growth.used {
		speed = float64(used-m.growth.used) / s.Now.Sub(m.growth.at).Seconds()
	}
	m.growth = growth{s.Now, used}
	switch {
	case s.Config.Off:
		return longest
	case waiting(m.state.Open):
		return looks
	case d.Nobody || s.Config.DryRun && d.Crossed != "":
		return longest / 10
	}
	c := s.effective()
	distance := d.Available - min(c.Hard, d.Available)
	if c.Soft > c.Hard && d.Available >= c.Soft {
		distance = d.Available - c.Soft
	}
	return Interval(distance, speed)
}

// note keeps what the look has found for Report, and says what is new.
func (m *Manager) note(s Snapshot, d Decision) {
	c := s.effective()
	m.mu.Lock()
	m.report = Report{
		Time: s.Now, Memory: s.Memory, Limit: s.limit(), Available: d.Available, Hard: c.Hard, Soft: c.Soft,
		Crossed: d.Crossed, Nobody: d.Nobody,
	}
	m.mu.Unlock()
	if d.Nobody && !m.nobody {
		m.Journal.Nobody(d.Available, d.At, d.Order)
		m.Observer.Nobody()
	}
	m.nobody = d.Nobody
}

// measured are the pods with figures.
func (m *Manager) measured() []Pod { return Measure(m.Cgroups, m.Pods(), m.warn) }

// Measure returns the pods with figures. Those whose cgroup is gone are left out, and so are those of whose containers none was known that runs, and
// none runs; of those that cannot be read warn hears.
func Measure(cgroups cgroupfs.FS, pods []Pod, warn func(error)) []Pod {
	pods = slices.Clone(pods)
	n := 0
	for _, p := range pods {
		if len(p.Containers) == 0 {
			if populated, err := cgroups.Populated(p.Cgroup); err == nil && !populated {
				continue
			}
		}
		bytes, err := cgroups.WorkingSet(p.Cgroup)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			warn(err) // a pod without figures goes first, as with the kubelet
		}
		p.Usage, p.Measured = Usage{WorkingSet: bytes}, err == nil
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

// resume takes the steps of evictions that an earlier run left. All of them can be taken twice.
func (m *Manager) resume(ctx context.Context) {
	for i := range m.state.Open {
		m.state.Open[i].stopping = time.Now()
		e := m.state.Open[i]
		m.Journal.Resumed(e)
		if !e.Gone {
			m.stop(ctx, e)
		}
		m.tell(ctx, e)
	}
}

// keep adds an eviction to those that status shows.
func (m *Manager) keep(e Eviction) {
	m.last = append(m.last, e)
	m.last = m.last[max(0, len(m.last)-kept):]
}

// save writes the state down. An eviction is not put off where that fails: it would be made twice at worst.
func (m *Manager) save() {
	m.remember()
	if err := m.Store.write(History{Open: m.state.Open, Cooldown: m.state.Cooldown, Last: m.last}); err != nil {
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

// warn says what hampers us, once for each text.
func (m *Manager) warn(err error) {
	if text := err.Error(); !m.warned[text] && len(m.warned) < 1000 {
		m.warned[text] = true
		m.Journal.Warn(err)
	}
}
