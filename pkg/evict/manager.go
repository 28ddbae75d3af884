package evict

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
	// Confirm reports whether the pod still ends, and has it do so again where somebody has overwritten it.
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
	distance := d.Available - min(s.Config.Hard, d.Available)
	if s.Config.Soft > s.Config.Hard && d.Available >= s.Config.Soft {
		distance = d.Available - s.Config.Soft
	}
	return Interval(distance, speed)
}

// note keeps what the look has found for Report, and says what is new.
func (m *Manager) note(s Snapshot, d Decision) {
	m.mu.Lock()
	m.report = Report{
		Time: s.Now, Memory: s.Memory, Limit: s.limit(), Available: available(s.limit(), s.Memory.Used()), Hard: s.Config.Hard, Soft: s.Config.Soft,
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

// Measure returns the pods with figures. Those whose cgroup is gone are left out; of those that cannot be read warn hears.
func Measure(cgroups cgroupfs.FS, pods []Pod, warn func(error)) []Pod {
	pods = slices.Clone(pods)
	n := 0
	for _, p := range pods {
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

// begin takes the steps of an eviction that cannot wait.
func (m *Manager) begin(ctx context.Context, s Snapshot, d Decision) {
	e := newEviction(s, d)
	if s.Config.DryRun {
		if s.Now.Before(m.dryRun[e.UID]) {
			return
		}
		m.dryRun[e.UID] = s.Now.Add(again)
		m.Journal.Evicting(e)
		m.Observer.Evicting(e.Threshold, e.Way, true, time.Since(s.Now))
		m.keep(e)
		m.save()
		return
	}
	e.stopping = time.Now()
	m.state.Open = append(m.state.Open, e)
	if e.Way == Evict {
		m.state.Cooldown[e.Owner] = s.Now.Add(s.Config.Cooldown)
	}
	m.save()
	m.stop(ctx, e)
	m.Observer.Evicting(e.Threshold, e.Way, false, time.Since(s.Now))
	m.Journal.Evicting(e)
	m.tell(ctx, e)
}

// choose decides. A pod of which nothing is left to stop is no choice: its containers may have ended since the list of pods was made, and
// what did not end a moment ago will not end now.
func (m *Manager) choose(s Snapshot) Decision {
	for {
		d := Decide(s)
		if d.Victim == nil {
			return d
		}
		if d.Victim.Containers = m.containers(*d.Victim); len(d.Victim.Containers) > 0 {
			return d
		}
		s.Pods = slices.DeleteFunc(s.Pods, func(p Pod) bool { return p.UID == d.Victim.UID })
	}
}

// containers are those of a pod that are left to stop, with those that were started since the list of pods was made.
func (m *Manager) containers(p Pod) []Container {
	known := map[string]Container{}
	for _, c := range p.Containers {
		known[c.ID] = c
	}
	list := slices.Clone(p.Containers)
	if scopes, err := m.Scopes(p.Cgroup); err != nil {
		m.warn(err)
	} else {
		list = list[:0]
		for _, id := range slices.Sorted(maps.Keys(scopes)) {
			c := known[id]
			c.ID, c.Cgroup = id, scopes[id]
			list = append(list, c)
		}
	}
	stopped := m.stopped(p.UID)
	list = slices.DeleteFunc(list, func(c Container) bool {
		populated, err := m.Cgroups.Populated(c.Cgroup)
		return stopped[c.Cgroup] || err == nil && !populated
	})
	for i := range list {
		list[i].WorkingSet, _ = m.Cgroups.WorkingSet(list[i].Cgroup) // for the message only
	}
	return list
}

// stopped are the containers of a pod that were told to end lately, by their cgroups: a live move gives them another one.
func (m *Manager) stopped(uid string) map[string]bool {
	stopped := map[string]bool{}
	for _, e := range slices.Concat(m.last, m.state.Open) {
		if e.UID != uid || e.DryRun || time.Since(e.stopping) > again {
			continue
		}
		for _, c := range e.Containers {
			stopped[c.Cgroup] = true
		}
	}
	return stopped
}

// stop stops the containers of an eviction: at once by the kernel, where there is no grace period. The runtime sees them end as it
// sees them killed by anybody else; asked to, it would take a hundred times as long (docs/architecture.md).
func (m *Manager) stop(ctx context.Context, e Eviction) {
	for _, c := range e.Containers {
		if e.Grace > 0 {
			m.ask(ctx, e, c)
			continue
		}
		if err := m.kill(c); err != nil {
			if !errors.Is(err, errNoKill) {
				m.failed(e, StepStop, err)
			}
			m.ask(ctx, e, c)
		}
	}
}

// errNoKill says that the kernel cannot kill a cgroup: before Linux 5.14.
var errNoKill = errors.New("no cgroup.kill")

// kill kills what is in a container. That it is gone already is success.
func (m *Manager) kill(c Stopped) error {
	err := m.Kill(c.Cgroup)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if populated, _ := m.Cgroups.Populated(c.Cgroup); populated {
		return errNoKill
	}
	return nil
}

// ask has the runtime stop a container, and does not wait for it.
func (m *Manager) ask(ctx context.Context, e Eviction, c Stopped) {
	m.watching.Go(func() {
		if err := m.Runtime.Stop(ctx, c.ID, e.Grace); err != nil && ctx.Err() == nil {
			if populated, _ := m.Cgroups.Populated(c.Cgroup); populated {
				m.failed(e, StepStop, err)
			}
		}
		m.wake()
	})
}

// hurry ends the grace period of an eviction, which has come to be one for the given threshold.
func (m *Manager) hurry(ctx context.Context, e Eviction, threshold Threshold) {
	for i := range m.state.Open {
		if m.state.Open[i].UID == e.UID && m.state.Open[i].Time.Equal(e.Time) {
			m.state.Open[i].Grace = 0
			m.state.Open[i].Threshold = threshold
			m.state.Open[i].stopping = time.Now()
		}
	}
	e.Grace = 0
	m.save()
	m.stop(ctx, e)
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

// progress looks how far the open evictions have come.
func (m *Manager) progress(ctx context.Context) {
	m.mu.Lock()
	news := m.told
	m.told = nil
	m.mu.Unlock()
	changed := false
	for _, t := range news {
		for i := range m.state.Open {
			e := &m.state.Open[i]
			if e.UID != t.uid || !e.Time.Equal(t.at) {
				continue
			}
			e.Told, changed = true, true
			if t.err == nil {
				continue
			}
			e.Problem = t.err.Error()
			if t.evicted {
				continue
			}
			// The kubelet starts its containers again.
			e.Way = Restart
			if errors.Is(t.err, ErrFinal) {
				// It was not evicted for certain. Of a server that did not answer one cannot know.
				delete(m.state.Cooldown, e.Owner)
			}
		}
	}
	for i := range m.state.Open {
		e := &m.state.Open[i]
		if e.Gone {
			continue
		}
		if e.ended.IsZero() {
			ended, err := m.ended(*e)
			if err != nil {
				m.warn(err)
			}
			if ended {
				e.ended = time.Now()
			}
		}
		switch late := time.Since(e.stopping) - e.Grace; {
		case !e.ended.IsZero():
			if m.drained(*e) {
				e.Gone, changed = true, true
			}
		case late > endTimeout:
			e.Gone, changed = true, true
			e.Problem = fmt.Sprintf("its processes have not ended %s after they were to; going on with the next pod", endTimeout)
			m.failed(*e, StepTimeout, errors.New(e.Problem))
			if e.Grace > 0 {
				m.hurry(ctx, *e, e.Threshold)
			}
		}
	}
	m.state.Open = slices.DeleteFunc(m.state.Open, func(e Eviction) bool {
		if !e.Gone || !e.Told {
			return false
		}
		m.keep(e)
		m.Journal.Evicted(e, time.Since(e.Time))
		return true
	})
	if changed {
		forgetCooldown(m.state.Cooldown, time.Now())
		m.save()
	}
}

// ended reports whether the containers of an eviction are gone.
func (m *Manager) ended(e Eviction) (bool, error) {
	for _, c := range e.Containers {
		if populated, err := m.Cgroups.Populated(c.Cgroup); err != nil || populated {
			return false, err
		}
	}
	return true, nil
}

// drained reports whether the memory of an eviction whose processes have ended is back. What files in memory hold (emptyDir with the medium
// Memory) is freed when the kubelet unmounts them, and not at all where the pod stays: that is waited for a little.
func (m *Manager) drained(e Eviction) bool {
	left, err := m.Cgroups.WorkingSet(e.Cgroup)
	return err != nil || left < e.WorkingSetBytes/2 || time.Since(e.ended) > drainTimeout
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

// countKills tells of processes that the kernel has killed.
func (m *Manager) countKills() {
	killed, atLimit, err := m.Cgroups.OOMEvents(m.Slice)
	if err != nil {
		return // gone, which the next look sees
	}
	if m.oom.known && atLimit > m.oom.atLimit {
		m.oom.at = time.Now()
	}
	if m.oom.known && killed > m.oom.killed {
		limit := AtPod
		if time.Since(m.oom.at) < longest { // the limit counts first (mem_cgroup_oom), and may have been all that the last look saw
			limit = AtPartition
		}
		m.Observer.KernelKilled(limit, killed-m.oom.killed)
		m.Journal.KernelKilled(limit, killed-m.oom.killed)
	}
	m.oom.known, m.oom.killed, m.oom.atLimit = true, killed, atLimit
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
